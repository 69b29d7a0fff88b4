"""List the named measures: title, unit, and the field of ``Measures`` that holds the value.

SLOs, the nightly gate and the prediction read this list. For all of them, lower is better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lagbench.core.measures.measures import Measures


@dataclass(frozen=True, slots=True)
class NamedMeasure:
    """One number of a run; ``read`` gives None where it was not measured."""

    name: str
    title: str
    unit: str
    read: Callable[[Measures], float | None]


_ALL = (
    NamedMeasure(
        "reaction_seconds", "Scale-out reaction", "s", lambda m: m.reaction.assigned_seconds
    ),
    NamedMeasure("peak_lag_records", "Peak lag", "messages", lambda m: m.lag.peak_records),
    NamedMeasure("drain_seconds", "Lag drain", "s", lambda m: m.drain.drain_seconds),
    NamedMeasure("time_lag_p95_seconds", "Time lag p95", "s", lambda m: m.lag.time_lag_seconds.p95),
    NamedMeasure("time_lag_p99_seconds", "Time lag p99", "s", lambda m: m.lag.time_lag_seconds.p99),
    NamedMeasure(
        "rebalance_dip_percent", "Rebalance dip", "%", lambda m: m.rebalances.max_dip_percent
    ),
    NamedMeasure(
        "rebalance_area_seconds", "Rebalance area", "s", lambda m: m.rebalances.max_area_seconds
    ),
    NamedMeasure(
        "rebalance_recovery_seconds",
        "Rebalance recovery",
        "s",
        lambda m: m.rebalances.max_recovery_seconds,
    ),
    NamedMeasure(
        "standstill_seconds",
        "Standstill",
        "s",
        lambda m: None if m.standstill is None else m.standstill.group_seconds,
    ),
    NamedMeasure("flips", "Flapping", "flips", lambda m: m.scaling.flips),
    NamedMeasure("max_replicas", "Most replicas", "", lambda m: m.scaling.max_replicas),
    NamedMeasure("pod_minutes", "Pod-minutes", "min", lambda m: m.scaling.pod_minutes),
    NamedMeasure("lost", "Messages lost", "messages", lambda m: m.accounting.lost_in_all),
    NamedMeasure(
        "duplicated", "Double-processing", "processings", lambda m: m.accounting.duplicated
    ),
    NamedMeasure("reordered", "Reordered", "messages", lambda m: m.accounting.reordered),
    NamedMeasure("zombies", "Two owners at once", "messages", lambda m: m.accounting.zombie),
)
NAMED = {measure.name: measure for measure in _ALL}
