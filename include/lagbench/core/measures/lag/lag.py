"""Lag of a run over time: per partition and in total.

Lag of a partition is its end offset minus the group's committed offset, never below zero (the two
are read one after the other). A partition without a commit has an unknown lag, unless its end
offset is 0: then nothing can wait. A total with one unknown part is unknown, never partial.

The partitions that the topic had at the stream's start must be in each sample: one without a row is
unknown. One that comes later held nothing before its first row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lagbench.core.measures.measures import NANOSECONDS, Lag, Seconds
from lagbench.core.measures.statistics import Ints, Reals


@dataclass(frozen=True, slots=True)
class LagSeries:
    """Samples ascending by ``at`` (unix ns); matrices are [sample, partition], NaN is unknown."""

    at: Ints
    partitions: Ints
    end_offsets: Reals
    by_partition: Reals

    @property
    def total(self) -> Reals:
        """Total lag per sample; NaN when a partition is unknown."""
        total: Reals = self.by_partition.sum(axis=1)
        return total

    @property
    def known_at(self) -> list[int]:
        """The instants at which total lag is known."""
        known: list[int] = self.at[~np.isnan(self.total)].tolist()
        return known

    def index_at(self, instant: int) -> int | None:
        """Return the last sample at or before ``instant``."""
        place = int(np.searchsorted(self.at, instant, side="right")) - 1
        return place if place >= 0 else None


@dataclass(frozen=True, slots=True)
class LagCrossing:
    """Total lag rose above a threshold at ``at``, known to within ``precision_seconds``."""

    at: int
    precision_seconds: float
    is_interpolated: bool


def lag_series(
    at: Sequence[int],
    partition: Sequence[int],
    end_offset: Sequence[int],
    committed: Sequence[int | None],
    first_partitions: int | None = None,
) -> LagSeries:
    """Return the series of rows of the table ``lag`` (any order; a missing row is unknown).

    ``first_partitions`` is how many there were at the stream's start; None: all that have a row.
    """
    instants, row = np.unique(np.asarray(at, dtype=np.int64), return_inverse=True)
    seen = np.asarray(partition, dtype=np.int64)
    first = np.arange(first_partitions or 0, dtype=np.int64)
    partitions = np.union1d(seen, first).astype(np.int64)
    column = np.searchsorted(partitions, seen)
    shape = (instants.size, partitions.size)
    ends, lags = np.full(shape, np.nan), np.full(shape, np.nan)
    end = np.asarray(end_offset, dtype=np.float64)
    end[end < 0] = np.nan  # of a broker that stood still: an answer without an offset
    commit = np.asarray([np.nan if c is None else c for c in committed], dtype=np.float64)
    ends[row, column] = end
    lags[row, column] = np.where(end == 0, 0.0, np.maximum(end - commit, 0.0))
    if first_partitions is not None:
        for later in np.flatnonzero(partitions >= first_partitions):
            is_before = np.arange(instants.size) < row[column == later].min()
            ends[is_before, later] = lags[is_before, later] = 0.0
    return LagSeries(instants, partitions, ends, lags)


def first_crossing(series: LagSeries, after_at: int, threshold: float) -> LagCrossing | None:
    """Return when total lag first rises above ``threshold`` at or after ``after_at``.

    Between the last sample at or below and the first above, the instant is interpolated linearly;
    the precision is the distance of the two samples. Lag that was above already crosses at once.
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
        at_spike_end_records=_known(series.total, at_end),
        time_lag_seconds=time_lag_seconds,
        samples=int(inside.sum()),
        unknown_samples=int((inside & ~is_known).sum()),
    )


def last_committed(series: LagSeries) -> dict[int, int | None]:
    """Return the last committed offset by partition; None: none was seen."""
    committed = series.end_offsets - series.by_partition
    found: dict[int, int | None] = {}
    for place, partition in enumerate(series.partitions.tolist()):
        known = committed[~np.isnan(committed[:, place]), place]
        found[partition] = int(known[-1]) if known.size else None
    return found


def _known(total: Reals, index: int | None) -> int | None:
    return None if index is None or np.isnan(total[index]) else int(total[index])
