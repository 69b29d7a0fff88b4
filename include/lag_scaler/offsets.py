"""Samples of offsets: of one group and topic, the last good ones, and the lag and age they show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lag_scaler.rule import LagRule

PartitionIds = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
Instants = npt.NDArray[np.int64]
Values = npt.NDArray[np.int64]  # records, or nanoseconds of age
Flags = npt.NDArray[np.bool_]
# The offset of a partition without a commit, and of a log start that was not requested.
NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """One consumer group on one topic; for Iggy the topic is written ``<stream>/<topic>``."""

    group: str
    topic: str


@dataclass(frozen=True, slots=True, eq=False)
class GroupSample:
    """Offsets of all partitions of one group and topic at one instant (unix ns).

    ``partitions``: ascending, without repeats; the other arrays have its length and order.
    ``end``: the offset that the next record will get. ``committed``: the next record to be read;
    below 0 when the group has none (librdkafka reports -1001). ``earliest``: the first offset still
    in the log, where ``committed`` is below 0 or may lie before it; -1 where it was not requested,
    None if it was requested nowhere.
    ``error``: not empty when the read failed; the arrays are then invalid and may be empty.
    """

    at_ns: int
    partitions: PartitionIds
    end: Offsets
    committed: Offsets
    earliest: Offsets | None = None
    error: str = ""


def failed_sample(at_ns: int, error: str) -> GroupSample:
    """Return the sample of a failed read: no offsets, and the error."""
    nothing = np.empty(0, dtype=np.int64)
    return GroupSample(at_ns, np.empty(0, dtype=np.int32), nothing, nothing, error=error)


class OffsetHistory:
    """At most ``depth`` rows, oldest first, of instants, end offsets and committed ones.

    Rows are samples, columns partitions; ``committed`` is below 0 where there was no commit.
    ``log_start`` is the first offset known to be still in the log (-1: never requested). It only
    grows, so even an old one is a lower bound of the offsets that can be read.
    """

    def __init__(self, depth: int) -> None:
        """Start empty, without partitions."""
        self.depth = depth
        self.clear()

    def __len__(self) -> int:
        return int(self.times.size)

    @property
    def newest_at_ns(self) -> int | None:
        """Return the instant of the newest sample; None when there is none."""
        return int(self.times[-1]) if self.times.size else None

    def clear(self) -> None:
        """Forget all samples and partitions."""
        none = np.empty(0, dtype=np.int64)
        self.load(none.astype(np.int32), none, none, none.reshape(0, 0), none.reshape(0, 0))

    def load(
        self,
        partitions: PartitionIds,
        log_start: Offsets,
        times: Instants,
        end: Offsets,
        committed: Offsets,
    ) -> None:
        """Replace everything."""
        self.partitions, self.log_start = partitions, log_start
        self.times, self.end, self.committed = times, end, committed

    def set_depth(self, depth: int) -> None:
        """Keep up to ``depth`` rows from now on."""
        self.depth = depth
        self.times, self.end, self.committed = (
            rows[-depth:] for rows in (self.times, self.end, self.committed)
        )

    def append(self, sample: GroupSample) -> None:
        """Add a good sample newer than all others.

        An end offset below the last one means that records were cut off (a recreated topic, an
        unclean election): the rows of that partition are cut to it, its log start is forgotten.
        """
        if not np.array_equal(sample.partitions, self.partitions):
            self._reindex(sample.partitions)
        if len(self):
            is_cut = sample.end < self.end[-1]
            if is_cut.any():
                for rows in (self.end, self.committed):
                    np.minimum(rows, sample.end, out=rows, where=is_cut)
                self.log_start = np.where(is_cut, NO_OFFSET, self.log_start)
        if sample.earliest is not None:
            self.log_start = np.maximum(self.log_start, sample.earliest)
        kept = self.depth - 1
        self.times = np.append(self.times[-kept:], np.int64(sample.at_ns))
        self.end = np.vstack([self.end[-kept:], sample.end])
        self.committed = np.vstack([self.committed[-kept:], sample.committed])

    def _reindex(self, partitions: PartitionIds) -> None:
        """Give the rows the columns of ``partitions``: a new one was empty before it existed."""
        old, rows = self.partitions, len(self)
        end, committed = np.zeros((2, rows, partitions.size), dtype=np.int64)
        committed += NO_OFFSET
        self.end = moved(self.end, old, end, partitions)
        self.committed = moved(self.committed, old, committed, partitions)
        unknown = np.full(partitions.size, NO_OFFSET, dtype=np.int64)
        self.log_start = moved(self.log_start, old, unknown, partitions)
        self.partitions = partitions


def moved(values: Values, old: PartitionIds, usual: Values, new: PartitionIds) -> Values:
    """Return ``usual`` for the partitions ``new``, with the values of those that ``old`` has."""
    _, in_new, in_old = np.intersect1d(new, old, assume_unique=True, return_indices=True)
    usual[..., in_new] = values[..., in_old]
    return usual


class RuleColumns:
    """A history as one rule reads it: the partitions that count, a missing commit's meaning."""

    def __init__(self, rule: LagRule, history: OffsetHistory) -> None:
        """Choose the partitions."""
        kept = (
            slice(None)
            if rule.partition_limitation is None
            else np.flatnonzero(np.isin(history.partitions, rule.partition_limitation))
        )
        self.rule = rule
        self.times = history.times
        self.partitions: PartitionIds = history.partitions[kept]
        self.end, self.committed = history.end[:, kept], history.committed[:, kept]
        self.log_start = history.log_start[kept]
        self._reads_from_start = rule.wakes_for_backlog or (
            rule.offset_reset_policy == "earliest" and not rule.scale_to_zero_on_invalid_offset
        )

    def unknown_partitions(self) -> list[int]:
        """Return the partitions whose lag is unknown: their log start was never reported."""
        if not self._reads_from_start:
            return []
        found: list[int] = self.partitions[(self.committed[-1] < 0) & (self.log_start < 0)].tolist()
        return found

    def lag(self, row: int) -> Values:
        """Return the records of a row that can still be read; expired ones never count.

        Without a commit: with ``latest`` 1, as in KEDA, so that one consumer starts and commits
        (0 with scaleToZeroOnInvalidOffset); with ``earliest`` all records still in the log.
        """
        end, committed = self.end[row], self.committed[row]
        waiting: Values = np.maximum(end - np.maximum(committed, self.log_start), 0)
        if self._reads_from_start or (committed >= 0).all():
            return waiting
        without_commit = np.ones_like(waiting)
        if self.rule.scale_to_zero_on_invalid_offset:
            without_commit = np.zeros_like(waiting)
        return np.where(committed < 0, without_commit, waiting)

    def ages(self, row: int) -> tuple[Values, Flags]:
        """Return (age of each partition's oldest record at a row, whether it is only a bound)."""
        rows = slice(max(0, row + 1 - self.rule.window_size), row + 1)
        end, committed = self.end[rows], self.committed[row]
        readable = np.maximum(committed, self.log_start)
        if not self._reads_from_start:
            readable = np.where(committed < 0, end[-1], readable)
        return ages(self.times[rows], end, np.minimum(readable, end[-1]))

    def values(self, row: int) -> Values:
        """Return what the threshold is compared with: by partition, or a single value."""
        is_age = self.rule.lag_metric == "seconds"
        each = self.ages(row)[0] if is_age else self.lag(row)
        if self.rule.lag_scope == "partition":
            return each
        single: Values = np.array([each.max() if is_age else each.sum()])
        return single

    def is_stuck(self) -> Flags:
        """Return the partitions whose commit did not move between the last two rows."""
        if len(self.times) < 2 or not self.rule.exclude_persistent_lag:
            return np.zeros(self.partitions.size, dtype=np.bool_)
        now, before = self.committed[-1], self.committed[-2]
        still: Flags = (now == before) & (now >= 0)
        return still


def ages(times: Instants, ends: Offsets, next_offsets: Offsets) -> tuple[Values, Flags]:
    """Return (age of each partition's oldest waiting record, whether it is only a lower bound).

    ``ends`` are rows of non-decreasing end offsets at ``times``. The record at offset ``c`` was
    written when the end offset passed ``c``: linear between the last sample whose end was not
    above ``c`` and the next one. After a quiet time it may be up to one interval younger. A record
    older than every row is at least as old as the first row.
    """
    reached = (ends <= next_offsets).sum(axis=0)
    rows = times.size
    before = np.clip(reached - 1, 0, rows - 1)
    after = np.minimum(before + 1, rows - 1)
    columns = np.arange(next_offsets.size)
    low, high = ends[before, columns], ends[after, columns]
    share = np.clip((next_offsets - low) / np.maximum(high - low, 1), 0.0, 1.0)
    written = times[before] + (share * (times[after] - times[before])).astype(np.int64)
    is_bound = reached == 0
    written = np.where(is_bound, times[0], np.where(reached == rows, times[-1], written))
    return times[-1] - written, is_bound
