"""Compute the lag and age of each partition from offsets, as one object reads them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagbench.core.keda.triggers import OffsetResetPolicy
from lagbench.core.lag_scaler.lag_source import Offsets, PartitionIds
from lagbench.core.lag_scaler.offset_history import Columns, Instants, least

Records = npt.NDArray[np.int64]
Nanoseconds = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OffsetReading:
    """The rules for reading offsets: the meaning of a missing commit, the partitions that count."""

    reset_policy: OffsetResetPolicy
    scale_to_zero: bool
    limitation: tuple[int, ...] | None

    def kept(self, partitions: PartitionIds) -> Columns | slice:
        """Return the columns of the partitions that count; a slice, which is cheap, for all."""
        if self.limitation is None:
            return slice(None)
        return np.flatnonzero(np.isin(partitions, self.limitation))

    @property
    def needs_log_start(self) -> bool:
        """Return whether a partition without a commit is read from the start of the log."""
        return self.reset_policy == "earliest" and not self.scale_to_zero

    @staticmethod
    def waiting(end: Offsets, committed: Offsets, log_start: Offsets) -> Records:
        """Return ``lag`` where every partition has a commit."""
        waiting = end - np.maximum(committed, log_start)
        if waiting.size and least(waiting) < 0:
            np.maximum(waiting, 0, out=waiting)
        return waiting

    def lag(self, end: Offsets, committed: Offsets, log_start: Offsets) -> Records:
        """Return the records that can still be read; expired ones never count.

        Without a commit: with ``latest`` 1, as in KEDA, so that one consumer starts and commits
        (0 with scaleToZeroOnInvalidOffset); with ``earliest`` all records still in the log.
        """
        waiting = self.waiting(end, committed, log_start)
        if committed.size and least(committed) >= 0:
            return waiting
        if self.scale_to_zero:
            without_commit = np.zeros_like(waiting)
        elif self.reset_policy == "latest":
            without_commit = np.ones_like(waiting)
        else:
            without_commit = waiting
        return np.where(committed < 0, without_commit, waiting)

    def next_offset(self, end: Offsets, committed: Offsets, log_start: Offsets) -> Offsets:
        """Return the offset of the oldest record that waits; the end where none is to be read."""
        readable = np.maximum(committed, log_start)
        if self.reset_policy == "latest" or self.scale_to_zero:
            readable = np.where(committed < 0, end, readable)
        return np.minimum(readable, end)


def ages(
    times: Instants, ends: Offsets, next_offsets: Offsets
) -> tuple[Nanoseconds, npt.NDArray[np.bool_]]:
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
    is_read = reached == rows
    written = np.where(is_bound, times[0], np.where(is_read, times[-1], written))
    return times[-1] - written, is_bound


def stuck(committed: Offsets) -> npt.NDArray[np.bool_]:
    """Return the partitions whose commit did not move between the last two rows."""
    if len(committed) < 2:
        return np.zeros(committed.shape[1], dtype=np.bool_)
    is_still: npt.NDArray[np.bool_] = committed[-1] == committed[-2]
    is_still &= committed[-1] >= 0
    return is_still
