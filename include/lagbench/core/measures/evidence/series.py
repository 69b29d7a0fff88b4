"""Series for computing measures: lag by sample and partition, rate by 100 ms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagbench.core.measures.statistics import Ints, Reals

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
