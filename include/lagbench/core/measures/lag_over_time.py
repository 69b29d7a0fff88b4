"""State how many messages of the planned window were never done, for the time lag's percentiles.

The percentiles are of the messages that were done. A message that was never done has no time lag:
among all messages it comes after each one that was done. So with n messages and u of them never
done, a percentile of all exists only if the n - u others are enough for it, and it is a higher
percentile of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from lagbench.core.measures.evidence.lag_readings import (
    LagSeries,
    RateSeries,
    gaps_between,
    gaps_text,
)
from lagbench.core.measures.evidence.producer_report import SpikeWindow
from lagbench.core.measures.model import NANOSECONDS, Interval, MeasureModel
from lagbench.core.measures.replica_steps import ReplicaChange
from lagbench.core.scenario.offered_load import OfferedLoad


class NeverDone(MeasureModel):
    """Messages of the planned window that nothing finished; a dead letter is finished."""

    planned: int  # messages of the planned window
    at_least: int  # proven lost
    at_most: int  # also those that waited at the end, and those of which it is not known

    def leaves(self, percent: int) -> bool:
        """Return whether ``percent`` of the messages may have been done."""
        return 100 * (self.planned - self.at_least) >= percent * self.planned

    def percent_of_done(self, percent: int) -> float | None:
        """Return the percent of the done messages that is surely ``percent`` of all; None: none."""
        done = self.planned - self.at_most
        if done <= 0 or 100 * done < percent * self.planned:
            return None
        return percent * self.planned / done

    @property
    def text(self) -> str:
        """Return the counts in words."""
        least, most = f"{self.at_least:,}", f"{self.at_most:,}"
        count = least if least == most else f"{least} to {most}"
        return f"{count} of {self.planned:,} messages were never done"


class BuildUp(MeasureModel):
    """The growth of lag from a spike's start until replicas rose."""

    started_at: int  # the spike's planned start
    ended_at: int | None = None
    until: Literal["scale_out", "peak"] | None = None  # which of the two came first
    from_records: int | None = None
    to_records: int | None = None
    sampled_seconds: float | None = None  # between the two samples
    records_per_second: float | None = None
    reason: str = ""  # why there is no rate; empty when there is


def build_up(
    series: LagSeries,
    spikes: Sequence[SpikeWindow],
    changes: Sequence[ReplicaChange],
    *,
    until_at: int,
) -> BuildUp | None:
    """Return the fastest build-up of ``spikes`` (ascending); None without a spike.

    If no spike has a rate, the first one's reason is returned.
    """
    bounds = [*(spike.started_at for spike in spikes), until_at]
    found = [
        _of_spike(series, start, end, changes)
        for start, end in pairwise(bounds)
        if start < end <= until_at
    ]
    fastest = [each for each in found if each.records_per_second is not None] or found
    return max(fastest, key=lambda each: each.records_per_second or 0.0, default=None)


def _of_spike(
    series: LagSeries, start_at: int, next_at: int, changes: Sequence[ReplicaChange]
) -> BuildUp:
    rises = [c.at for c in changes if c.replicas_after > c.replicas_before]
    scaled_at = next((at for at in sorted(rises) if start_at < at <= next_at), None)
    watched_until = next_at if scaled_at is None else scaled_at
    known_at = np.asarray(series.known_at, dtype=np.int64)
    totals = series.total[~np.isnan(series.total)]
    first = int(np.searchsorted(known_at, start_at, side="right")) - 1
    end = int(np.searchsorted(known_at, watched_until, side="right"))
    if first < 0:
        return BuildUp(started_at=start_at, reason="there is no lag sample before the spike")
    inside = totals[first:end]
    last = first + int(np.argmax(inside))
    is_peak = scaled_at is None or bool(inside[-1] < inside.max())
    if not is_peak:
        last = end - 1
    ended_at = int(known_at[last]) if is_peak else watched_until
    gaps = [
        *gaps_between([], int(known_at[first]), start_at),
        *gaps_between(known_at.tolist(), start_at, watched_until),
    ]
    if gaps:
        return BuildUp(started_at=start_at, reason=gaps_text("lag", gaps))
    seconds = int(known_at[last] - known_at[first]) / NANOSECONDS
    if is_peak and last == first:
        return BuildUp(started_at=start_at, reason="lag did not rise")
    if seconds == 0:
        return BuildUp(
            started_at=start_at, reason="replicas rose before the second sample of the lag"
        )
    return BuildUp(
        started_at=start_at,
        ended_at=ended_at,
        until="peak" if is_peak else "scale_out",
        from_records=int(totals[first]),
        to_records=int(totals[last]),
        sampled_seconds=seconds,
        records_per_second=float(totals[last] - totals[first]) / seconds,
    )


class IdleWait(MeasureModel):
    """The first message after an idle stretch."""

    idle_seconds: float  # length of the stretch, as planned
    planned_at: int  # the instant at which the message was due
    first_done_at: int | None = None
    seconds: float | None = None
    reason: str = ""  # why the wait is not known; empty when it is


def idle_wait(
    load: OfferedLoad, rate: RateSeries, *, stream_started_at: int | None, until_at: int
) -> IdleWait | None:
    """Return the longest wait after an idle stretch of ``load``; None: the load has no such one.

    If the wait of one stretch is not known, that stretch is returned.
    """
    if stream_started_at is None:
        return None
    found = [
        _after(rate, idle_seconds, seq, stream_started_at + offset_ns, until_at)
        for idle_seconds, seq, offset_ns in _returns(load)
    ]
    return max(
        found, key=lambda each: np.inf if each.seconds is None else each.seconds, default=None
    )


def _returns(load: OfferedLoad) -> list[tuple[float, int, int]]:
    """Return of each idle stretch its length, and seq and offset (ns) of the first event after."""
    found: list[tuple[float, int, int]] = []
    idle_from: float | None = None
    for part, following in pairwise(load.segments):
        if part.rate_per_second > 0:
            continue
        idle_from = part.start_seconds if idle_from is None else idle_from
        if following.rate_per_second > 0:
            at = following.start_seconds
            seq = load.planned_count(at)
            first = load.planned_times(seq, seq + 1)
            found += [(at - idle_from, seq, int(due)) for due in first]  # none at a very low rate
            idle_from = None
    return found


def _after(
    rate: RateSeries, idle_seconds: float, seq: int, planned_at: int, until_at: int
) -> IdleWait:
    first = rate.bin_of(planned_at)
    left = seq - int(rate.processed[:first].sum())
    if left > 0:
        why = f"{left:,} messages still waited when the load came back"
        return IdleWait(idle_seconds=idle_seconds, planned_at=planned_at, reason=why)
    done = np.flatnonzero(rate.processed[first : rate.bin_of(until_at)])
    if not done.size:
        why = "nothing was done after it"
        return IdleWait(idle_seconds=idle_seconds, planned_at=planned_at, reason=why)
    done_at = rate.at_bin(first + int(done[0]) + 1)
    return IdleWait(
        idle_seconds=idle_seconds,
        planned_at=planned_at,
        first_done_at=done_at,
        seconds=(done_at - planned_at) / NANOSECONDS,
    )


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
