"""Drain: from the end of the last spike to total lag at or below the threshold.

Threshold: one lagThreshold (the lag that one replica may hold). ``drained_at`` is the first sample
at or after the spike's end with total lag at or below it; samples are 1 s apart. A total that is
unknown drains nothing.

Skew limit: a partition is read by one pod, so no drain is shorter than the hottest partition's
backlog at the spike's end divided by one pod's rate (concurrency / process_ms).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lagbench.core.lag import LagSeries
from lagbench.core.lag_fall import full_parallelism, lag_fall
from lagbench.core.measures import NANOSECONDS, Drain
from lagbench.core.rate_dip import RateSeries
from lagbench.core.telemetry import ReplicaSample
from lagbench.core.unseen import unseen_between


@dataclass(frozen=True, slots=True)
class DrainThreshold:
    """The lag that counts as drained, and where it comes from."""

    records: float | None
    text: str


def pod_rate_per_second(process_ms: float, concurrency: int) -> float | None:
    """Return the most that one pod can do; None when a record costs nothing."""
    return None if process_ms == 0 else concurrency * 1000 / process_ms


def drain_measure(
    series: LagSeries,
    replicas: Sequence[ReplicaSample],
    rate: RateSeries,
    *,
    spike_ended_at: int | None,
    until_at: int,
    threshold: DrainThreshold,
    pod_rate: float | None,
) -> Drain:
    """Return the drain after ``spike_ended_at``; all None without a spike or a threshold."""
    drained = _drained(series, spike_ended_at, until_at, threshold.records)
    drained_at = None if drained is None else int(series.at[drained])
    stretch = full_parallelism(replicas, spike_ended_at, until_at)
    sampled = [sample.at for sample in replicas]
    unseen = [] if spike_ended_at is None else unseen_between(sampled, spike_ended_at, until_at)
    fall = lag_fall(series, rate, stretch, drained_at, unseen)
    hottest, limit = _skew_limit(series, spike_ended_at, pod_rate)
    return Drain(
        spike_ended_at=spike_ended_at,
        drained_at=drained_at,
        drain_seconds=_seconds_between(spike_ended_at, drained_at),
        precision_seconds=_precision(series, drained),
        threshold_records=threshold.records,
        threshold_text=threshold.text,
        falls_monotonically=fall.falls_monotonically,
        max_rise_records=fall.max_rise_records,
        tolerance_records=fall.tolerance_records,
        longest_plateau_seconds=fall.longest_plateau_seconds,
        monotone_text=fall.text,
        skew_limited_seconds=limit,
        hottest_partition=hottest,
    )


def _drained(
    series: LagSeries, spike_ended_at: int | None, until_at: int, threshold: float | None
) -> int | None:
    if spike_ended_at is None or threshold is None:
        return None
    inside = (series.at >= spike_ended_at) & (series.at <= until_at)
    fitting = np.flatnonzero(inside & (series.total <= threshold))
    return int(fitting[0]) if fitting.size else None


def _seconds_between(start_at: int | None, end_at: int | None) -> float | None:
    return None if start_at is None or end_at is None else (end_at - start_at) / NANOSECONDS


def _precision(series: LagSeries, index: int | None) -> float | None:
    """Return the distance to the sample before: the lag may have been drained since then."""
    return None if not index else float(series.at[index] - series.at[index - 1]) / NANOSECONDS


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
