"""Derive the work of a group from its committed offsets alone, in bins of 100 ms.

A commit says that the messages up to it are done, not when. Between two commits of a partition the
work is spread evenly, over at most ``SPREAD`` times the usual time between two commits: a longer
pause is then seen as one. So an instant of work is known to the usual time between two commits.
The end offsets say how many messages arrived between two samples. Where a log was cut, both
count from its new offsets, and what waited in it no longer does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagbench.core.measures.evidence.gaps import GAP_SECONDS
from lagbench.core.measures.evidence.log_cuts import cuts_until, growth
from lagbench.core.measures.evidence.series import BIN_NS, LagSeries, RateSeries
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.rebalance.partition_work import (
    Counts,
    PartitionWork,
    delayed,
    waiting_after,
)
from lagbench.core.measures.statistics import Ints, Reals

SPREAD = 1.5
FEWEST_COMMITS = 3


@dataclass(frozen=True, slots=True)
class CommittedWork:
    """The group's work as its commits show it.

    ``commit_seconds`` is the usual time between two commits of a partition; None: too few commits.
    """

    rate: RateSeries
    work: PartitionWork
    commit_seconds: float | None


def rate_of_commits(rate: RateSeries, lag: LagSeries) -> RateSeries:
    """Return ``rate`` with the messages below the committed offsets as processed.

    For a topic of a run, of which nothing was committed before the run. The bins stay those of
    ``rate``; without two readings of the offsets so does the work.
    """
    found, size = work_by_commits(lag), rate.processed.size
    if found is None or not size:
        return rate
    committed = lag.end_offsets - lag.by_partition
    known = ~np.isnan(committed)
    first = known.argmax(axis=0)
    before = np.where(known.any(axis=0), committed[first, np.arange(first.size)], 0.0)
    reached = np.cumsum(np.append(0, found.rate.processed)).astype(np.float64)
    ends = found.rate.started_at + BIN_NS * np.arange(reached.size, dtype=np.int64)
    for place, messages in zip(first.tolist(), before.tolist(), strict=True):
        reached[ends >= lag.at[place]] += messages
    edges = rate.started_at + BIN_NS * np.arange(size + 1, dtype=np.int64)
    at = np.floor(np.interp(edges, ends, reached, left=0.0)).astype(np.int64)
    return RateSeries(rate.started_at, rate.offered, np.diff(at))


def work_by_commits(lag: LagSeries) -> CommittedWork | None:
    """Return the work of the group; None: offsets were not read twice."""
    if lag.at.size < 2:
        return None
    size = max(1, -int(-(lag.at[-1] - lag.at[0]) // BIN_NS))
    started_at = int(lag.at[0])
    edges = started_at + np.arange(size + 1, dtype=np.int64) * BIN_NS
    committed = lag.end_offsets - lag.by_partition
    cuts = [cuts_until(column) for column in lag.end_offsets.T]
    usual = _usual_pause(lag.at, committed, cuts)
    count = int(lag.partitions.max(initial=-1)) + 1
    offered, done = np.zeros((count, size), np.int32), np.zeros((count, size), np.int32)
    backlog, vanished = np.zeros(count, np.int64), np.zeros((count, size), np.int32)
    for place, partition in enumerate(lag.partitions.tolist()):
        offered[partition] = _by_bin(edges, *_known(lag.at, lag.end_offsets[:, place], cuts[place]))
        done[partition] = _by_bin(edges, *_worked(lag.at, committed[:, place], cuts[place], usual))
        for at, messages in _cut_off(lag, place, cuts[place]):
            vanished[partition, min((at - started_at) // BIN_NS, size - 1)] += messages
        waits = lag.by_partition[:, place][~np.isnan(lag.by_partition[:, place])]
        backlog[partition] = int(waits[0]) if waits.size else 0
    arrivals = delayed(offered)
    arrivals[:, :1] += backlog[:, None].astype(np.int32)
    commit_seconds = None if usual is None else usual / NANOSECONDS
    work = PartitionWork(
        arrivals=arrivals,
        waiting=waiting_after(arrivals - vanished, done),
        done=done,
        lost=np.zeros(size, dtype=np.int64),
        pod_rates=None,
        message_seconds=None,
        note=_note(commit_seconds),
        backlog=int(backlog.sum()),
    )
    total = RateSeries(started_at, _total(offered), _total(done))
    return CommittedWork(total, work, commit_seconds)


def bins_without_reading(rate: RateSeries, lag: LagSeries) -> npt.NDArray[np.bool_]:
    """Return the bins of ``rate``, which is by commits, in which it is not known.

    They are those between two readings of a partition that are further apart than a gap, with the
    time to the next seen commit on both sides if work waited: it holds work that was done in it, or
    that was not yet committed.
    """
    committed = lag.end_offsets - lag.by_partition
    cuts = [cuts_until(column) for column in lag.end_offsets.T]
    usual = _usual_pause(lag.at, committed, cuts)
    spread = None if usual is None else _spread_ns(usual)
    found = np.zeros(rate.processed.size, dtype=np.bool_)
    for place, column in enumerate(committed.T):
        instants, done = _known(lag.at, column, cuts[place])
        waits = lag.by_partition[~np.isnan(column), place] > 0
        commits = instants[np.flatnonzero(np.diff(done) > 0) + 1]
        for row in np.flatnonzero(np.diff(instants) > GAP_SECONDS * NANOSECONDS).tolist():
            began_at, ended_at = int(instants[row]), int(instants[row + 1])
            if waits[row]:
                last_at = int(max(instants[0], *commits[commits <= began_at][-1:]))
                began_at = last_at if spread is None else max(last_at, began_at - spread)
            if waits[row + 1]:
                next_at = int(min(instants[-1], *commits[commits > ended_at][:1]))
                ended_at = next_at if spread is None else min(next_at, ended_at + spread)
            found[rate.bin_of(began_at) : rate.bin_of(ended_at - 1) + 1] = True
    return found


def _usual_pause(at: Ints, committed: Reals, cuts: Sequence[Ints]) -> float | None:
    """Return the median time between two commits of a partition in ns; None: too few commits."""
    pauses = [_pauses(at, *both) for both in zip(committed.T, cuts, strict=True)]
    known = np.concatenate(pauses) if pauses else np.empty(0)
    return float(np.median(known)) if known.size >= FEWEST_COMMITS else None


def _spread_ns(usual: float) -> int:
    """Return the longest time over which the work of one commit is spread."""
    return round(max(SPREAD * usual, NANOSECONDS))


def _note(commit_seconds: float | None) -> str:
    if commit_seconds is None:
        return "the group committed too rarely to show when it worked"
    return f"by commits, of which each partition has one in {commit_seconds:.1f} s"


def _total(counts: Counts) -> Ints:
    total: Ints = counts.sum(axis=0, dtype=np.int64)
    return total


def _known(at: Ints, offsets: Reals, cuts: Ints) -> tuple[Ints, Reals]:
    """Return the growth of a partition's known offsets: one that is set back is not new work."""
    known = ~np.isnan(offsets)
    return at[known], growth(offsets[known], cuts[known])


def _cut_off(lag: LagSeries, place: int, cuts: Ints) -> Iterator[tuple[int, int]]:
    """Return the cuts of a partition's log, each with how many messages fewer wait after it."""
    waits = lag.by_partition[:, place]
    for row in (np.flatnonzero(np.diff(cuts)) + 1).tolist():
        before = waits[:row][~np.isnan(waits[:row])]
        yield int(lag.at[row]), int(before[-1:].sum() - np.nan_to_num(waits[row]))


def _pauses(at: Ints, committed: Reals, cuts: Ints) -> npt.NDArray[np.float64]:
    """Return the times between two commits of a partition in ns."""
    instants, offsets = _known(at, committed, cuts)
    changes = np.flatnonzero(np.diff(offsets) > 0) + 1
    return np.diff(instants[changes]).astype(np.float64)


def _worked(at: Ints, committed: Reals, cuts: Ints, usual: float | None) -> tuple[Ints, Reals]:
    """Return instants and offsets between which the work is even."""
    instants, offsets = _known(at, committed, cuts)
    if instants.size < 2:
        return instants, offsets
    points: list[tuple[int, float]] = [(int(instants[0]), float(offsets[0]))]
    for place in (np.flatnonzero(np.diff(offsets) > 0) + 1).tolist():
        last_at, reached = points[-1]
        ended_at = int(instants[place])
        if usual is not None:
            began_at = max(last_at, ended_at - _spread_ns(usual))
            if began_at > last_at:
                points.append((began_at, reached))
        points.append((ended_at, float(offsets[place])))
    found_at, found = zip(*points, strict=True)
    return np.asarray(found_at, dtype=np.int64), np.asarray(found, dtype=np.float64)


def _by_bin(edges: Ints, at: Ints, offsets: Reals) -> Counts:
    """Return the whole messages of each bin; their sum is what the offsets grew by."""
    if at.size < 2:
        return np.zeros(edges.size - 1, dtype=np.int32)
    reached = np.rint(np.interp(edges, at, offsets))
    counts: Counts = np.diff(reached).astype(np.int32)
    return counts
