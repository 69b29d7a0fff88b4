"""One object's rule for persistent lag, and what it decides on the newest sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from lag_scaler.keda_values import NS_PER_SECOND, divisors, go_boolean, parse_partition_limitation
from pod_program.errors import NotReady

LAG_SCALER_DEFAULT_THRESHOLD = 500
"""The default of ``lagThreshold``, in records for each replica."""
# Two missed samples and some lateness are tolerated; a third missed sample ends every stretch.
_MAX_GAP_INTERVALS = 2.5
# A broker that is busy for a second must not cost KEDA its metric, however short the interval.
_SHORTEST_MAX_GAP_SECONDS = 2.5
# Samples come early or late by milliseconds: a span counts as reached half an interval before.
SPAN_TOLERANCE_INTERVALS = 0.5
_MOST_NAMED_PARTITIONS = 5_000


def _flag(value: Any) -> Any:
    """Read a Go boolean, as KEDA reads its own triggers."""
    return go_boolean(value) if isinstance(value, str) else value


def _partitions(value: Any) -> Any:
    """Read partitions and ascending ranges, as ``1,2,5-9``."""
    if not isinstance(value, str):
        return value
    kept = parse_partition_limitation(value)
    if not 0 < len(kept) <= _MOST_NAMED_PARTITIONS:
        raise ValueError(f"1 to {_MOST_NAMED_PARTITIONS} partitions, such as 1,2,5-9")
    return tuple(sorted(set(kept)))


Flag = Annotated[bool, BeforeValidator(_flag)]
_MOST_RECORDS = 10**15
# The HPA's own limit for a stabilisation window.
Stabilization = Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)]


class LagRule(BaseModel):
    """Parameters by the names of the metadata; equal rules share one evaluation.

    ``lag_threshold`` is in records; with ``lag_metric`` seconds, in seconds of age. It is both the
    limit of the rule (at or above) and the target per replica. ``wakes_for_backlog`` is
    Iggy's meaning of ``scale_to_zero_on_invalid_offset``: without a commit, the backlog counts.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    lag_threshold: int = Field(LAG_SCALER_DEFAULT_THRESHOLD, ge=1, le=_MOST_RECORDS)
    activation_lag_threshold: int = Field(0, ge=0, le=_MOST_RECORDS)
    sustain_seconds: float = Field(120.0, ge=0, le=86_400, allow_inf_nan=False)
    sampling_interval_seconds: float = Field(
        10.0, ge=0.2, le=3600, allow_inf_nan=False, alias="samplingInterval"
    )
    # A window of 2,000 samples of 2,400 partitions is 115 MB; more is a mistake.
    window_size: int = Field(30, ge=2, le=2000)
    scale_up_stabilization_seconds: Stabilization = Field(0.0, alias="scaleUpStabilization")
    scale_down_stabilization_seconds: Stabilization = Field(0.0, alias="scaleDownStabilization")
    lag_scope: Literal["partition", "total"] = "partition"
    lag_metric: Literal["records", "seconds", "projected"] = "records"
    offset_reset_policy: Literal["latest", "earliest"] = "latest"
    scale_to_zero_on_invalid_offset: Flag = False
    wakes_for_backlog: bool = False
    exclude_persistent_lag: Flag = False
    partition_limitation: Annotated[tuple[int, ...] | None, BeforeValidator(_partitions)] = None
    limit_to_partitions_with_lag: Flag = False
    allow_idle_consumers: Flag = False
    ensure_even_distribution_of_partitions: Flag = False
    sync_on_step: Flag = False
    sync_distance_seconds: float = Field(5.0, ge=1, le=3600, allow_inf_nan=False)
    sync_floor: int = Field(1, ge=1, le=100_000)

    @property
    def window_span_seconds(self) -> float:
        """Return the longest stretch that a full window can show."""
        return (self.window_size - 1) * self.sampling_interval_seconds

    @property
    def needed_span_ns(self) -> int:
        """Return the span from which a stretch counts as persistent: within half an interval."""
        tolerated = SPAN_TOLERANCE_INTERVALS * self.sampling_interval_seconds
        return round((self.sustain_seconds - tolerated) * NS_PER_SECOND)

    @property
    def evidence_intervals(self) -> int:
        """Return the number of sampling intervals over which rates are measured."""
        quarter = math.ceil(self.sustain_seconds / 4 / self.sampling_interval_seconds)
        return min(max(quarter, 2), self.window_size - 1)

    @property
    def threshold_in_values(self) -> int:
        """Return the threshold in records, or in nanoseconds of age."""
        is_age = self.lag_metric == "seconds"
        return self.lag_threshold * NS_PER_SECOND if is_age else self.lag_threshold

    def capped(self, value: float, *, partitions: int, with_lag: int) -> tuple[float, int | None]:
        """Return ``value`` so that ceil(value / target) is at most the bound, and that bound.

        KEDA compares after an integer division and so allows almost one target more, which its HPA
        rounds up to one replica too many. Zero stays zero: KEDA's even distribution would make it
        one target. With lagMetric seconds and the trigger's metricType AverageValue, one replica
        stands for each lagThreshold of delay; with Value, the HPA multiplies the present replicas.
        """
        is_even = self.ensure_even_distribution_of_partitions
        is_limited = self.limit_to_partitions_with_lag
        if self.allow_idle_consumers and not is_limited and not is_even:
            return value, None
        target = self.lag_threshold
        if is_even and value > 0:
            fitting = (number for number in divisors(partitions) if number >= value / target)
            value = min(fitting, default=partitions) * target
        bound = with_lag if is_limited else partitions
        return min(value, bound * target), bound


def max_gap_ns(interval_seconds: float) -> int:
    """Return the longest distance of two samples; it is also the newest one's highest age."""
    seconds = max(_MAX_GAP_INTERVALS * interval_seconds, _SHORTEST_MAX_GAP_SECONDS)
    return round(seconds * NS_PER_SECOND)


class LagUnavailable(NotReady):
    """There is no decision: no sample yet, the newest one too old, or a partition's lag unknown."""


class GroupFigures(NamedTuple):
    """The figures of the newest sample: lag in records, over the partitions that count."""

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
        started_at_ns = self.stretch_started_at_ns
        return 0.0 if started_at_ns is None else (self.figures.at_ns - started_at_ns) / 1e9

    @property
    def is_held(self) -> bool:
        """Return whether stabilisation changed this sample's own value."""
        return self.metric_value != self.raw_metric
