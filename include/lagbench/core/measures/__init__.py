"""Measures of a finished run, as pure functions of its records."""

from lagbench.core.measures.checks import (
    Check,
    rebalance_count,
    rebalances_within,
    reconciliation,
)
from lagbench.core.measures.compute import compute_measures
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.model import (
    NANOSECONDS,
    Fidelity,
    MeasureModel,
    NamedMeasure,
    exact_text,
    short_beside,
    short_text,
)
from lagbench.core.measures.moment import moment
from lagbench.core.measures.registry import NAMED
from lagbench.core.measures.run_evidence import (
    Ledger,
    RunEvidence,
    first_partitions,
    hpa_sync_at_seconds,
)
from lagbench.core.measures.scaling import Scaling
from lagbench.core.measures.statistics import Ints, Reals

__all__ = [
    "NAMED",
    "NANOSECONDS",
    "Check",
    "Fidelity",
    "Ints",
    "Ledger",
    "MeasureModel",
    "Measures",
    "NamedMeasure",
    "Reals",
    "RunEvidence",
    "Scaling",
    "compute_measures",
    "exact_text",
    "first_partitions",
    "hpa_sync_at_seconds",
    "moment",
    "rebalance_count",
    "rebalances_within",
    "reconciliation",
    "short_beside",
    "short_text",
]
