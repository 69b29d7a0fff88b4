"""Find gaps between readings: anything could have happened in a gap, so it never passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lagbench.core.measures.model import NANOSECONDS, Ints, MeasureModel, Reals
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import OffsetsCommitted
from lagbench.core.telemetry.records_of_recorder import LagSample, ReadGap, ReplicaSample

GAP_SECONDS = 3.5
"""Readings further apart than this leave a gap; no other module has a limit of its own.

The recorder reads once a second, on a grid: one lost reading makes 2 s, two make 3 s plus a jitter
of milliseconds, three make 4 s. A limit of 3.0 s would make a gap of two lost readings or none,
by the jitter alone; 3.5 s is as far from 3 s as from 4 s.
"""
READ_WITHIN_SECONDS = 1.5
"""Offsets may have been read this long after the stamp of their sample.

The recorder stamps a sample before it reads. It reads one sample at a time, so a reading has ended
when the next one is stamped.
"""


class TelemetryGap(MeasureModel):
    """A gap in the readings of ``what``."""

    what: str
    started_at: int
    ended_at: int
    gap_seconds: float
    reason: str

    @classmethod
    def between(cls, what: str, started_at: int, ended_at: int, reason: str) -> TelemetryGap:
        """Return the gap with its length."""
        return cls(
            what=what,
            started_at=started_at,
            ended_at=ended_at,
            gap_seconds=(ended_at - started_at) / NANOSECONDS,
            reason=reason,
        )


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without a reading."""

    started_at: int
    ended_at: int

    @property
    def seconds(self) -> float:
        """The length of the gap."""
        return (self.ended_at - self.started_at) / NANOSECONDS


def gaps_between(instants: Iterable[int], from_at: int, until_at: int) -> list[Gap]:
    """Return the gaps in [from_at, until_at] between the readings at ``instants``."""
    inside = sorted(at for at in instants if from_at <= at <= until_at)
    limit = GAP_SECONDS * NANOSECONDS
    return [
        Gap(left, right)
        for left, right in pairwise([from_at, *inside, until_at])
        if right - left > limit
    ]


def gaps_text(what: str, gaps: Sequence[Gap], origin_at: int | None = None) -> str:
    """Return the gaps in words, in seconds after ``origin_at``; empty without any."""
    if not gaps:
        return ""
    longest = max(gaps, key=lambda gap: gap.seconds)
    text = f"no reading of {what} for {longest.seconds:.1f} s"
    if origin_at is not None:
        text += f" from {(longest.started_at - origin_at) / NANOSECONDS:+.1f} s"
    more = len(gaps) - 1
    return text + (f" and in {more} more gaps" if more > 1 else " and once more" * more)


def telemetry_gaps(
    records: Sequence[TelemetryRecord], *, from_at: int, until_at: int
) -> tuple[TelemetryGap, ...]:
    """Return the times in which readings failed or the recorder was silent, by start.

    Failed readings of one kind form one gap while at most ``GAP_SECONDS`` apart.
    """
    inside = [record for record in records if from_at <= record.at <= until_at]
    failed: dict[str, list[ReadGap]] = {}
    for record in inside:
        if isinstance(record, ReadGap):
            failed.setdefault(record.what, []).append(record)
    limit, gaps = GAP_SECONDS * NANOSECONDS, []
    for what, readings in failed.items():
        readings.sort(key=lambda reading: (reading.at, reading.reason))
        first = readings[0]
        for before, reading in pairwise([*readings, None]):
            if before is not None and (reading is None or reading.at - before.at > limit):
                gaps.append(TelemetryGap.between(what, first.at, before.at, first.reason))
                first = reading or first
    seen = sorted(r.at for r in inside if isinstance(r, LagSample | ReplicaSample | ReadGap))
    gaps += [
        TelemetryGap.between("recorder", left, right, "no record of the recorder")
        for left, right in pairwise(seen)
        if right - left > limit
    ]
    return tuple(sorted(gaps, key=lambda gap: (gap.started_at, gap.what)))


BIN_NS = 100_000_000


@dataclass(frozen=True, slots=True)
class RateSeries:
    """Messages per 100 ms bin from ``started_at`` (unix ns) on, without holes."""

    started_at: int
    offered: Ints
    processed: Ints

    def bin_of(self, at: int) -> int:
        """Return the bin that holds ``at``, bounded to the series."""
        return min(max((at - self.started_at) // BIN_NS, 0), self.processed.size)

    def at_bin(self, index: int) -> int:
        """Return the start of bin ``index``."""
        return self.started_at + index * BIN_NS

    def processed_between(self, from_at: int, until_at: int) -> int:
        """Return the messages done in the bins that start in [from_at, until_at)."""
        return int(self.processed[self.bin_of(from_at) : self.bin_of(until_at)].sum())


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


def lag_of(ends: Reals, commits: Reals, is_added: npt.NDArray[np.bool_]) -> Reals:
    """Return the lag of rows; NaN where it is unknown.

    A partition that was added during the run begins at 0, and the group reads it from there: all of
    it waits until the first commit. One of the start without a commit may have any.
    """
    known = np.where(is_added & np.isnan(commits), 0.0, commits)
    lags: Reals = np.where(ends == 0, 0.0, np.maximum(ends - known, 0.0))
    return lags


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
    end[end < 0] = np.nan  # from a stalled broker: an answer without an offset
    commit = np.asarray([np.nan if c is None else c for c in committed], dtype=np.float64)
    ends[row, column] = end
    is_added = np.full(seen.size, False)
    if first_partitions is not None:
        is_added = seen >= first_partitions
    lags[row, column] = lag_of(end, commit, is_added)
    if first_partitions is not None:
        for later in np.flatnonzero(partitions >= first_partitions):
            is_before = np.arange(instants.size) < row[column == later].min()
            ends[is_before, later] = lags[is_before, later] = 0.0
    return LagSeries(instants, partitions, ends, lags)


def cuts_until(ends: Reals) -> Ints:
    """Return how often a partition's log was cut, up to and with each reading; NaN is unknown."""
    known = ~np.isnan(ends)
    cuts = np.zeros(ends.size, dtype=np.int64)
    cuts[known] = np.diff(ends[known], prepend=ends[known][:1]) < 0
    total: Ints = np.cumsum(cuts)
    return total


def growth(offsets: Reals, cuts: Ints) -> Reals:
    """Return by how much known offsets of a partition grew since the first of them.

    An offset that is set back grows again when it is ahead of its highest. ``cuts`` are those until
    each offset: a cut log has new offsets, which grow from the first of them on.
    """
    steps = np.zeros_like(offsets)
    for number in np.unique(cuts):
        part = offsets[cuts == number]
        steps[cuts == number] = np.diff(np.maximum.accumulate(part), prepend=part[:1])
    total: Reals = np.cumsum(steps)
    return total


def first_cuts(lag: LagSeries) -> dict[int, int]:
    """Return the instant of the first cut of each partition whose log was cut."""
    found: dict[int, int] = {}
    for place, partition in enumerate(lag.partitions.tolist()):
        rows = np.flatnonzero(cuts_until(lag.end_offsets[:, place]))
        if rows.size:
            found[partition] = int(lag.at[rows[0]])
    return found


def without_stale(
    lag: LagSeries, records: Sequence[TelemetryRecord]
) -> tuple[LagSeries, tuple[Gap, ...]]:
    """Return the series with its stale samples unknown, and the times that they covered."""
    if lag.at.size < 2:
        return lag, ()
    lag = _without_dips(lag)
    state = np.concatenate([lag.end_offsets, lag.by_partition], axis=1)
    stands = np.concatenate([[False], (state[1:] == state[:-1]).all(axis=1)])
    first_of = np.maximum.accumulate(np.where(stands, 0, np.arange(lag.at.size)))
    is_stale = np.zeros(lag.at.size, dtype=bool)
    column = {partition: place for place, partition in enumerate(lag.partitions.tolist())}
    slack = round(READ_WITHIN_SECONDS * NANOSECONDS)
    for record in records:
        if not isinstance(record, OffsetsCommitted):
            continue
        since = int(np.searchsorted(lag.at, record.at + slack))
        if since >= lag.at.size or not stands[since]:
            continue
        known = lag.end_offsets[since] - lag.by_partition[since]
        places = [column[int(p)] for p in record.offsets if int(p) in column]
        offsets = [offset for p, offset in record.offsets.items() if int(p) in column]
        moved = int(first_of[since])
        is_newer = record.at > lag.at[moved]  # an offset that was set back since then stays lower
        if is_newer and any(known[at] < of for at, of in zip(places, offsets, strict=True)):
            is_stale |= first_of == moved
            is_stale[moved] = False
    if not is_stale.any():
        return lag, ()
    ends, lags = lag.end_offsets.copy(), lag.by_partition.copy()
    ends[is_stale] = lags[is_stale] = np.nan
    edges = np.flatnonzero(np.diff(np.concatenate([[0], is_stale.astype(np.int8), [0]])))
    spans = tuple(
        Gap(int(lag.at[start]), int(lag.at[end - 1]))
        for start, end in zip(edges[::2], edges[1::2], strict=True)
    )
    return replace(lag, end_offsets=ends, by_partition=lags), spans


def _without_dips(lag: LagSeries) -> LagSeries:
    """Return the series without samples whose end offsets fell and were back within a gap.

    A new leader may know of fewer records for a moment. Offsets that stay lower are of a new log.
    """
    wrong = np.zeros(lag.at.size, dtype=bool)
    for ends in lag.end_offsets.T:
        known = np.flatnonzero(~np.isnan(ends))
        highest = np.maximum.accumulate(ends[known])
        for place in known[ends[known] < highest]:
            before = highest[np.searchsorted(known, place)]
            back = known[(known > place) & (ends[known] >= before)]
            limit = lag.at[place] + round(GAP_SECONDS * NANOSECONDS)
            wrong[place] |= bool(back.size) and bool(lag.at[back[0]] <= limit)
    if not wrong.any():
        return lag
    ends, lags = lag.end_offsets.copy(), lag.by_partition.copy()
    ends[wrong] = lags[wrong] = np.nan
    return replace(lag, end_offsets=ends, by_partition=lags)
