"""Measures of a finished run, as pure functions of its records."""

from lagbench.core.measures.checks import (
    Check,
    moved_back,
    rebalance_count,
    reconciliation,
    scale_down,
)
from lagbench.core.measures.end_state import EndState, end_state
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.model import NANOSECONDS, Fidelity, MeasureModel
from lagbench.core.measures.moment import moment
from lagbench.core.measures.observer_cost import observer_cost
from lagbench.core.measures.scaling import Scaling
from lagbench.core.measures.statistics import Ints, Reals

__all__ = [
    "NANOSECONDS",
    "Check",
    "EndState",
    "Fidelity",
    "Ints",
    "MeasureModel",
    "Measures",
    "Reals",
    "Scaling",
    "end_state",
    "moment",
    "moved_back",
    "observer_cost",
    "rebalance_count",
    "reconciliation",
    "scale_down",
]
