"""Measure the drain: from the end of the last spike to total lag at or below the threshold.

Threshold: one lagThreshold (the lag that one replica may hold). ``drained_at`` is the first sample
at or after the spike's end with total lag at or below it; samples are 1 s apart. An unknown
total does not count as drained. Neither does a low total while too much waits in the producer's
client, where it is not lag yet (``evidence/load_taken.py``).

The lag came down after the last sample that is known to be above the threshold, so the drain's
precision is the distance to that sample (``above_until_at``): a gap in between widens it. A sample
is stamped before it is read, so the lag came down until the end of the reading at the latest: the
next sample's stamp, or READ_WITHIN_SECONDS if that is earlier.

Skew limit: a partition is read by one pod, so no drain is shorter than the hottest partition's
backlog at the spike's end divided by one pod's rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lagbench.core.measures.evidence.actions import NOTHING_HIDDEN, Hidden
from lagbench.core.measures.evidence.gaps import READ_WITHIN_SECONDS, gaps_between
from lagbench.core.measures.evidence.generator import HeldBack
from lagbench.core.measures.evidence.series import LagSeries, RateSeries
from lagbench.core.measures.lag.lag_fall import full_parallelism, lag_fall
from lagbench.core.measures.model import NANOSECONDS, Interval, MeasureModel, NamedMeasure
from lagbench.core.telemetry.recorder import ReplicaSample


class Drain(MeasureModel):
    """From the end of the last spike to total lag at or below the threshold."""

    spike_ended_at: int | None
    drained_at: int | None
    drain_seconds: float | None
    precision_seconds: float | None  # to the last sample above; it may have drained since
    threshold_records: float | None
    threshold_text: str
    falls_monotonically: bool | None
    max_rise_records: int | None  # over any 5 s at full parallelism
    tolerance_records: float | None
    longest_plateau_seconds: float | None
    monotone_text: str
    skew_limited_seconds: float | None  # no drain can be shorter
    hottest_partition: int | None
    above_until_at: int | None = None  # lag was last known above the threshold (spike end, if not)
    open_lag_gaps: tuple[tuple[int, int], ...] = ()  # they alone leave the monotone fall open
    clock_error_seconds: float | None = 0.0  # of the spike's end; None: that clock is not bounded
    read_within_seconds: float = 0.0  # of ``drained_at``: the most that its reading took

    named: ClassVar[tuple[NamedMeasure[Drain], ...]] = (
        NamedMeasure(
            "drain_seconds",
            "Lag drain",
            "s",
            1,
            lambda drain: drain.drain_seconds,
            lambda drain: drain.drain_interval,
        ),
    )

    @property
    def drain_interval(self) -> Interval | None:
        """Return the bounds of ``drain_seconds``; None: not drained, or a clock is not bounded."""
        seconds, error = self.drain_seconds, self.clock_error_seconds
        if seconds is None or error is None:
            return None
        low = seconds - (self.precision_seconds or 0.0) - error
        return low, seconds + self.read_within_seconds + error


@dataclass(frozen=True, slots=True)
class DrainThreshold:
    """The lag that counts as drained, and where it comes from."""

    records: float | None
    text: str


def drain_measure(
    series: LagSeries,
    replicas: Sequence[ReplicaSample],
    rate: RateSeries,
    *,
    spike_ended_at: int | None,
    until_at: int,
    threshold: DrainThreshold,
    pod_rate: float | None,
    held: Sequence[HeldBack] = (),
    clock_error_seconds: float | None = 0.0,
    hidden: Hidden = NOTHING_HIDDEN,
) -> Drain:
    """Return the drain after ``spike_ended_at``; all None without a spike or a threshold.

    ``held``: when too much waited in the producer's client. ``clock_error_seconds``: the largest
    error of the spike's end, which is on the producer's clock; None: not bounded.
    """
    drained_at, above_until_at = _drained(series, spike_ended_at, until_at, threshold.records, held)
    window = full_parallelism(replicas, spike_ended_at, until_at)
    sampled = [sample.at for sample in replicas]
    gaps = [] if spike_ended_at is None else gaps_between(sampled, spike_ended_at, until_at)
    fall = lag_fall(series, rate, window, drained_at, gaps, held=held, hidden=hidden)
    hottest, limit = _skew_limit(series, spike_ended_at, pod_rate)
    return Drain(
        spike_ended_at=spike_ended_at,
        drained_at=drained_at,
        drain_seconds=_seconds_between(spike_ended_at, drained_at),
        precision_seconds=_seconds_between(above_until_at, drained_at),
        above_until_at=above_until_at,
        clock_error_seconds=clock_error_seconds,
        read_within_seconds=_read_within(series, drained_at),
        threshold_records=threshold.records,
        threshold_text=threshold.text,
        falls_monotonically=fall.falls_monotonically,
        max_rise_records=fall.max_rise_records,
        tolerance_records=fall.tolerance_records,
        longest_plateau_seconds=fall.longest_plateau_seconds,
        monotone_text=fall.text,
        open_lag_gaps=tuple((gap.started_at, gap.ended_at) for gap in fall.lag_gaps),
        skew_limited_seconds=limit,
        hottest_partition=hottest,
    )


def _drained(
    series: LagSeries,
    spike_ended_at: int | None,
    until_at: int,
    threshold: float | None,
    held: Sequence[HeldBack],
) -> tuple[int | None, int | None]:
    """Return when lag was first seen drained, and when it was last known not to be before that.

    Lag that was never known above the threshold may have been drained since the spike's end.
    """
    if spike_ended_at is None or threshold is None:
        return None, None
    total = series.total
    is_held = np.zeros(series.at.size, dtype=bool)
    for each in held:
        is_held |= (series.at >= each.started_at) & (series.at <= each.ended_at)
    inside = (series.at >= spike_ended_at) & (series.at <= until_at)
    fitting = np.flatnonzero(inside & (total <= threshold) & ~is_held)
    drained_at = int(series.at[fitting[0]]) if fitting.size else None
    last_at = until_at if drained_at is None else drained_at - 1
    above = series.at[((total > threshold) | is_held) & (series.at <= last_at)]
    since_at = int(above[-1]) if above.size else spike_ended_at
    return drained_at, max(since_at, spike_ended_at)


def _read_within(series: LagSeries, at: int | None) -> float:
    """Return the most that the reading of the sample stamped ``at`` took; 0 without a sample."""
    if at is None:
        return 0.0
    later = series.at[series.at > at]
    until_next = (int(later[0]) - at) / NANOSECONDS if later.size else READ_WITHIN_SECONDS
    return min(until_next, READ_WITHIN_SECONDS)


def _seconds_between(start_at: int | None, end_at: int | None) -> float | None:
    return None if start_at is None or end_at is None else (end_at - start_at) / NANOSECONDS


def _skew_limit(
    series: LagSeries, spike_ended_at: int | None, pod_rate: float | None
) -> tuple[int | None, float | None]:
    index = None if spike_ended_at is None else series.index_at(spike_ended_at)
    if index is None or np.isnan(series.by_partition[index]).any():
        return None, None
    row = series.by_partition[index]
    hottest = int(np.argmax(row))
    seconds = None if pod_rate is None else float(row[hottest]) / pod_rate
    return int(series.partitions[hottest]), seconds
