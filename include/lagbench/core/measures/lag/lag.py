"""Measure the count lag over time, per partition and in total, and the time lag.

Lag of a partition is its end offset minus the group's committed offset, never below zero (the two
are read one after the other). A partition without a commit has an unknown lag, unless its end
offset is 0: then nothing can wait. A total with one unknown part is unknown, never partial.

The partitions that the topic had at the stream's start must be in each sample: the lag of one
without a row is unknown. A partition added later held nothing before its first row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lagbench.core.measures.evidence.series import LagSeries
from lagbench.core.measures.lag.build_up import BuildUp
from lagbench.core.measures.lag.idle_wait import IdleWait
from lagbench.core.measures.lag.never_done import NeverDone
from lagbench.core.measures.model import NANOSECONDS, Interval, MeasureModel, NamedMeasure


class Seconds(MeasureModel):
    """Percentiles of a duration."""

    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


class Lag(MeasureModel):
    """Lag in messages (from offsets) and in seconds (done_at - planned_at)."""

    peak_records: int | None
    peak_at: int | None
    peak_partition: int | None  # the partition with the most lag of any sample
    peak_partition_records: int | None
    at_spike_end_records: int | None
    time_lag_seconds: Seconds  # of messages planned in the planned window, and done
    samples: int
    unknown_samples: int
    time_lag_seconds_after: Seconds | None = None  # of messages planned after it: the tail
    build_up: BuildUp | None = None  # of the fastest spike; None: no spike, or older measures
    after_idle: IdleWait | None = None  # None: the plan has no idle stretch, or older measures
    never_done: NeverDone | None = None  # None: no accounting, or older measures
    clock_error_seconds: float | None = 0.0  # of a time lag, by two clocks; None: not bounded

    named: ClassVar[tuple[NamedMeasure[Lag], ...]] = (
        NamedMeasure("peak_lag_records", "Peak lag", "messages", 0, lambda lag: lag.peak_records),
        NamedMeasure(
            "time_lag_p50_seconds",
            "Time lag p50",
            "s",
            1,
            lambda lag: lag.time_lag_seconds.p50,
            lambda lag: lag.time_lag_interval(lag.time_lag_seconds.p50),
        ),
        NamedMeasure(
            "time_lag_p95_seconds",
            "Time lag p95",
            "s",
            1,
            lambda lag: lag.time_lag_seconds.p95,
            lambda lag: lag.time_lag_interval(lag.time_lag_seconds.p95),
        ),
        NamedMeasure(
            "time_lag_p99_seconds",
            "Time lag p99",
            "s",
            1,
            lambda lag: lag.time_lag_seconds.p99,
            lambda lag: lag.time_lag_interval(lag.time_lag_seconds.p99),
        ),
        NamedMeasure(
            "first_event_wait_seconds",
            "Wait of the first message after idle",
            "s",
            1,
            lambda lag: None if lag.after_idle is None else lag.after_idle.seconds,
        ),
    )

    def time_lag_interval(self, seconds: float | None) -> Interval | None:
        """Return the bounds of a time lag; None: not measured, or a clock is not bounded."""
        error = self.clock_error_seconds
        return None if seconds is None or error is None else (seconds - error, seconds + error)

    def time_lag_at_most(self, percent: int) -> float | None:
        """Return a time within which ``percent`` of all messages surely were done; None: none."""
        needed = float(percent)
        if self.never_done is not None:
            of_done = self.never_done.percent_of_done(percent)
            if of_done is None:
                return None
            needed = of_done
        found = self.time_lag_seconds
        known = ((50, found.p50), (95, found.p95), (99, found.p99), (100, found.max))
        return next((at for rank, at in known if rank >= needed and at is not None), None)


@dataclass(frozen=True, slots=True)
class LagCrossing:
    """Total lag rose above a threshold at ``at``, known to within ``precision_seconds``."""

    at: int
    precision_seconds: float
    is_interpolated: bool


def first_crossing(series: LagSeries, after_at: int, threshold: float) -> LagCrossing | None:
    """Return when total lag first rises above ``threshold`` at or after ``after_at``.

    The instant is interpolated linearly between the last sample at or below and the first above;
    the precision is the distance of the two samples. Lag that is already above crosses at once.
    """
    total = series.total
    start = series.index_at(after_at)
    known = np.flatnonzero(~np.isnan(total))
    known = known[known >= (0 if start is None else start)]
    above = known[total[known] > threshold]
    if not above.size:
        return None
    right = int(above[0])
    at, earlier = int(series.at[right]), known[known < right]
    if not earlier.size:
        at = max(at, after_at)
        return LagCrossing(at, (at - after_at) / NANOSECONDS, is_interpolated=False)
    left = int(earlier[-1])
    share = float((threshold - total[left]) / (total[right] - total[left]))
    distance = at - int(series.at[left])
    crossed_at = int(series.at[left]) + round(share * distance)
    return LagCrossing(max(crossed_at, after_at), distance / NANOSECONDS, is_interpolated=True)


def lag_measure(
    series: LagSeries,
    *,
    from_at: int | None,
    until_at: int | None,
    spike_ended_at: int | None,
    time_lag_seconds: Seconds,
) -> Lag:
    """Return peaks of the samples in [from_at, until_at] and the percentiles of the time lag."""
    inside = np.ones(series.at.size, dtype=bool)
    if from_at is not None:
        inside &= series.at >= from_at
    if until_at is not None:
        inside &= series.at <= until_at
    total = np.where(inside, series.total, np.nan)
    is_known = ~np.isnan(total)
    peak = int(np.nanargmax(total)) if is_known.any() else None
    parts = np.where(inside[:, None], series.by_partition, np.nan)
    partition = records = None
    if not np.isnan(parts).all():
        place = np.unravel_index(int(np.nanargmax(parts)), parts.shape)
        partition, records = int(series.partitions[place[1]]), int(parts[place])
    at_end = None if spike_ended_at is None else series.index_at(spike_ended_at)
    return Lag(
        peak_records=None if peak is None else int(total[peak]),
        peak_at=None if peak is None else int(series.at[peak]),
        peak_partition=partition,
        peak_partition_records=records,
        at_spike_end_records=None
        if at_end is None or np.isnan(series.total[at_end])
        else int(series.total[at_end]),
        time_lag_seconds=time_lag_seconds,
        samples=int(inside.sum()),
        unknown_samples=int((inside & ~is_known).sum()),
    )
