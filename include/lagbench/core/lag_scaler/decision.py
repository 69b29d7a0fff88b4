"""Define the decision of one object's rule on the newest sample, with all its figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lagbench.core.lag_scaler.rule_parameters import LagRule
from lagbench.errors import NotReady


class LagUnavailable(NotReady):
    """There is no decision: no sample yet, the newest one too old, or a partition's lag unknown."""


class GroupFigures(NamedTuple):
    """The figures of one reading of the newest sample: lag in records, over counted partitions.

    A tuple, like ``Decision``: it is created at every sample, and a frozen dataclass costs four
    times as much.
    """

    at_ns: int
    samples: int
    partitions: int
    without_commit: int
    total_lag: int
    counted_lag: int  # without the partitions that excludePersistentLag leaves out
    partitions_with_lag: int  # of the counted lag
    largest_lag: int
    largest_partition: int
    oldest_age_ns: int | None  # of the counted partitions; None unless lagMetric is seconds
    is_age_a_bound: bool  # older than the window: "at least"


@dataclass(frozen=True, slots=True)
class Growth:
    """Rates over the evidence time, in records per second; ``usual_in``: over the rule's window."""

    in_per_second: float
    out_per_second: float
    over_seconds: float
    usual_in_per_second: float

    @property
    def per_second(self) -> float:
        """Return the provable growth of the backlog, even if arrivals fall to the usual rate."""
        return min(self.in_per_second, self.usual_in_per_second) - self.out_per_second


class Decision(NamedTuple):
    """The answer to KEDA for one rule, valid from one sample to the next.

    ``stretch_started_at_ns`` is None when nothing is at or above the threshold now;
    ``stretch_partition`` is None with ``lag_scope`` total. ``raw_metric`` is this sample's own
    value, ``metric_value`` the one after stabilisation.
    """

    rule: LagRule
    figures: GroupFigures
    stretch_started_at_ns: int | None
    stretch_partition: int | None
    is_persistent: bool
    is_early: bool
    growth: Growth | None
    uncapped_metric: float
    bound: int | None
    raw_metric: float
    metric_value: float
    is_active: bool

    @property
    def target(self) -> float:
        """Return the target per replica."""
        return float(self.rule.lag_threshold)

    @property
    def span_seconds(self) -> float:
        """Return how long the stretch has lasted at the newest sample."""
        if self.stretch_started_at_ns is None:
            return 0.0
        return (self.figures.at_ns - self.stretch_started_at_ns) / 1e9

    @property
    def is_held(self) -> bool:
        """Return whether stabilisation changed this sample's own value."""
        return self.metric_value != self.raw_metric

    def log_fields(self) -> dict[str, object]:
        """Return the figures of a structured log line that explains the decision."""
        return {
            "is_active": self.is_active,
            "metric_value": self.metric_value,
            "target": self.target,
            "is_persistent": self.is_persistent,
            "is_early": self.is_early,
            "is_held": self.is_held,
            "stretch_seconds": round(self.span_seconds, 3),
            "sustain_seconds": self.rule.sustain_seconds,
            "stretch_partition": self.stretch_partition,
            "total_lag_records": self.figures.total_lag,
            "largest_lag_records": self.figures.largest_lag,
            "largest_partition": self.figures.largest_partition,
            "partitions": self.figures.partitions,
            "partitions_with_lag": self.figures.partitions_with_lag,
            "replica_bound": self.bound,
            "sample_at_ns": self.figures.at_ns,
        }
