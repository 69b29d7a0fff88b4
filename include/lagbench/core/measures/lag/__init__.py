"""Lag over time: peak, drain, fall, build-up."""

from lagbench.core.measures.lag.build_up import build_up
from lagbench.core.measures.lag.drain import (
    Drain,
    DrainThreshold,
    drain_measure,
)
from lagbench.core.measures.lag.idle_wait import idle_wait
from lagbench.core.measures.lag.lag import Lag, Seconds, first_crossing, lag_measure
from lagbench.core.measures.lag.never_done import NeverDone

__all__ = [
    "Drain",
    "DrainThreshold",
    "Lag",
    "NeverDone",
    "Seconds",
    "build_up",
    "drain_measure",
    "first_crossing",
    "idle_wait",
    "lag_measure",
]
