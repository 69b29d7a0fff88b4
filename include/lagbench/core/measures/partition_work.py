"""Compute the waiting and the finished messages of each partition, in bins of 100 ms.

A message waits from IN_FLIGHT_BINS after its planned instant (until then it is on its way to a
consumer) until it is done. A message that is never done although its offset was committed (it is
lost) does not wait, so it is left out from the start.

The accounting counts every message by partition and bin. Without its table the group's totals are
distributed over the partitions by the samples of the lag, once a second and so less exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lagbench.core.measures.evidence.lag_readings import (
    BIN_NS,
    GAP_SECONDS,
    LagSeries,
    RateSeries,
    cuts_until,
    growth,
)
from lagbench.core.measures.evidence.pod_timeline import PodLives
from lagbench.core.measures.model import NANOSECONDS, Ints, Reals
from lagbench.core.measures.rate_dip import IN_FLIGHT_BINS

Counts = npt.NDArray[np.int32]
POD_BINS = 10
BY_LAG = "without the table timeline_by_partition partitions are derived from the samples of lag"


@dataclass(frozen=True, slots=True)
class PodRates:
    """Messages that each pod finished in each second (ten bins) of the series."""

    pods: tuple[str, ...]
    done: Counts  # [pod, second]


def rates_by_life(rates: PodRates, lives: PodLives, started_at: int) -> PodRates:
    """Return the rates with a row for each life of a pod; a second belongs to the life at its end.

    :param started_at: the start of the series (unix ns).
    """
    rows: dict[str, Counts] = {}
    for pod, done in zip(rates.pods, rates.done, strict=True):
        ends = [started_at + (second + 1) * NANOSECONDS - 1 for second in range(done.size)]
        owners = np.array([lives.name_at(pod, at) for at in ends], dtype=object)
        for name in lives.names(pod):
            rows[name] = np.where(owners == name, done, 0).astype(done.dtype)
    return PodRates(tuple(rows), np.stack(list(rows.values())) if rows else rates.done)


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """Matrices are [partition, bin]; bins as in the ``RateSeries`` of the run."""

    arrivals: npt.NDArray[np.int32] | npt.NDArray[np.float32]  # begin to wait in the bin
    waiting: npt.NDArray[np.int32] | npt.NDArray[np.float32]  # at the bin's start
    done: Counts | None  # first processings; None: not known by partition
    lost: Ints  # never done though committed, by the bin in which they were planned
    pod_rates: PodRates | None
    message_seconds: float | None  # from started to done, median; None: not recorded
    note: str = ""
    backlog: int = 0  # messages that waited before the first bin


def waiting_after(arrivals: Counts, done: Counts) -> Counts:
    """Return the messages waiting at the start of each bin; never below zero."""
    left = np.cumsum(arrivals.astype(np.int64) - done, axis=-1)
    waiting = np.zeros_like(left)
    waiting[..., 1:] = np.maximum(left[..., :-1], 0)
    return waiting.astype(np.int32)


def delayed(offered: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return when the messages planned in each bin begin to wait."""
    later = np.zeros_like(offered)
    later[..., IN_FLIGHT_BINS:] = offered[..., : offered.shape[-1] - IN_FLIGHT_BINS]
    return later


def group_waiting(rate: RateSeries, lost: Ints, backlog: int = 0) -> Ints:
    """Return the messages waiting in the whole group at each bin's start, by its own rates."""
    arrivals = delayed(rate.offered - lost)
    arrivals[:1] += backlog
    left: Ints = np.cumsum(np.concatenate([[0], arrivals - rate.processed]))[:-1]
    return np.maximum(left, 0)


def work_of_bins(
    offered: Counts,
    done: Counts,
    lost: Counts,
    *,
    pod_rates: PodRates,
    message_seconds: float | None,
) -> PartitionWork:
    """Return the work from what was planned, first done and lost, each [partition, bin]."""
    arrivals = delayed(offered - lost).astype(np.int32)
    return PartitionWork(
        arrivals=arrivals,
        waiting=waiting_after(arrivals, done),
        done=done,
        lost=lost.sum(axis=0, dtype=np.int64),
        pod_rates=pod_rates,
        message_seconds=message_seconds,
    )


def work_by_lag(rate: RateSeries, lag: LagSeries, lost_records: int) -> PartitionWork:
    """Return the group's work, distributed over the partitions by the samples of the lag.

    ``lost_records``: how many messages are known to be lost. The time of the loss is unknown, so
    they are left out from the start: until the loss that many fewer wait than really did.
    """
    size = rate.processed.size
    instants = rate.started_at + np.arange(size, dtype=np.int64) * BIN_NS
    never_done = int(rate.offered.sum() - rate.processed.sum())
    lost = np.zeros(size, dtype=np.int64)
    lost[:1] = min(max(never_done, 0), lost_records)
    waits = group_waiting(rate, lost).astype(np.float64)
    arrivals = delayed(rate.offered).astype(np.float64)
    count = int(lag.partitions.max(initial=0)) + 1
    shares = np.full(count, 1 / count)
    parts = np.tile(shares[:, None], (1, size))
    if lag.at.size:
        ends = np.zeros(count)
        ends[lag.partitions] = np.nan_to_num(lag.end_offsets[-1])
        shares = ends / ends.sum() if ends.sum() > 0 else shares
        # Commits trail the work: messages committed in the next sample no longer waited.
        committed = lag.end_offsets - lag.by_partition
        following = np.concatenate([committed[1:], lag.end_offsets[-1:]])
        known = np.nan_to_num(np.maximum(lag.end_offsets - following, 0))
        lags = np.zeros((count, size))
        for partition, column in zip(lag.partitions.tolist(), known.T, strict=True):
            lags[partition] = np.interp(instants, lag.at, column)
        total = lags.sum(axis=0)
        parts = np.where(total > 0, lags / np.maximum(total, 1e-9), shares[:, None])
    return PartitionWork(
        arrivals=(shares[:, None] * arrivals).astype(np.float32),
        waiting=(parts * waits).astype(np.float32),
        done=None,
        lost=lost,
        pod_rates=None,
        message_seconds=None,
        note=BY_LAG,
    )


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
