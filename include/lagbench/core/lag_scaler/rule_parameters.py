"""Define one object's rule for persistent lag: parameters, without addresses and secrets."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from lagbench.core.keda.triggers import OffsetResetPolicy
from lagbench.core.kubernetes import NS_PER_SECOND

LagScope = Literal["partition", "total"]
LagMetric = Literal["records", "seconds", "projected"]
# Two missed samples and some lateness are tolerated; a third missed sample ends every stretch.
MAX_GAP_INTERVALS = 2.5
# Samples come early or late by milliseconds: a span counts as reached half an interval before.
SPAN_TOLERANCE_INTERVALS = 0.5


LAG_SCALER_DEFAULT_THRESHOLD = 500
"""The default of ``lagThreshold``, in records for each replica."""


class LagRule(BaseModel):
    """One ScaledObject's rule for a group's lag; equal rules share one evaluation.

    ``lag_threshold`` is in records; with ``lag_metric`` seconds, in seconds of age. It is both the
    limit of the rule (at or above) and the target per replica. ``wakes_for_backlog`` is
    Iggy's meaning of ``scale_to_zero_on_invalid_offset``: without a commit, the backlog counts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    lag_threshold: int = LAG_SCALER_DEFAULT_THRESHOLD
    activation_lag_threshold: int = 0
    sustain_seconds: float = 120.0
    sampling_interval_seconds: float = 10.0
    window_size: int = 30
    scale_up_stabilization_seconds: float = 0.0
    scale_down_stabilization_seconds: float = 0.0
    lag_scope: LagScope = "partition"
    lag_metric: LagMetric = "records"
    offset_reset_policy: OffsetResetPolicy = "latest"
    scale_to_zero_on_invalid_offset: bool = False
    wakes_for_backlog: bool = False
    exclude_persistent_lag: bool = False
    partition_limitation: tuple[int, ...] | None = None
    limit_to_partitions_with_lag: bool = False
    allow_idle_consumers: bool = False
    ensure_even_distribution_of_partitions: bool = False

    @property
    def window_span_seconds(self) -> float:
        """Return the longest stretch that a full window can show."""
        return (self.window_size - 1) * self.sampling_interval_seconds

    @property
    def needed_span_ns(self) -> int:
        """Return the span from which a stretch counts as persistent: within half an interval."""
        tolerated = SPAN_TOLERANCE_INTERVALS * self.sampling_interval_seconds
        return round((self.sustain_seconds - tolerated) * NS_PER_SECOND)


def max_gap_ns(interval_seconds: float) -> int:
    """Return the longest distance of two samples; it is also the newest one's highest age."""
    return round(MAX_GAP_INTERVALS * interval_seconds * NS_PER_SECOND)
