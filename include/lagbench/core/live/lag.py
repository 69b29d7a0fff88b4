"""Follow the lag of a group: by partition, in total, and as the age of its oldest message."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lagbench.core.lag_scaler import NO_OFFSET, GroupSample, OffsetHistory, ages
from lagbench.core.measures import NANOSECONDS
from lagbench.core.measures.evidence import lag_of
from lagbench.core.telemetry import LagSample

HISTORY_SAMPLES = 1_800
"""Samples that the age looks back over: half an hour. An older message is at least that old."""


class LiveLag:
    """The newest lag. A partition without a commit has an unknown lag until it has one."""

    def __init__(self, first_partitions: int) -> None:
        """Take the partitions at the stream's start: those added later begin at offset 0."""
        self._first = first_partitions
        self._history = OffsetHistory(HISTORY_SAMPLES)
        self.at = 0
        self.by_partition: list[int | None] = []
        self.time_lag_seconds: float | None = None

    @property
    def total(self) -> int | None:
        """Return the total lag; None: that of a partition is unknown."""
        known = [lag for lag in self.by_partition if lag is not None]
        is_whole = bool(known) and len(known) == len(self.by_partition)
        return sum(known) if is_whole else None

    def take(self, sample: LagSample) -> None:
        """Take a sample that is newer than the last."""
        if not sample.partitions or sample.at <= self.at:
            return
        self.at = sample.at
        rows = sorted(sample.partitions, key=lambda row: row[0])
        numbers = np.array([number for number, _, _ in rows])
        ends = np.array([np.nan if end < 0 else end for _, end, _ in rows], dtype=np.float64)
        commits = np.array(
            [np.nan if commit is None else commit for _, _, commit in rows], dtype=np.float64
        )
        lags = lag_of(ends, commits, numbers >= self._first)
        self.by_partition = [None if np.isnan(lag) else int(lag) for lag in lags]
        self.time_lag_seconds = self._age(rows) if self.total is not None else None

    def _age(self, rows: Sequence[tuple[int, int, int | None]]) -> float:
        """Return the age of the oldest message without a commit, 0 if there is none."""
        end = np.array([end for _, end, _ in rows], dtype=np.int64)
        committed = np.array([NO_OFFSET if c is None else c for _, _, c in rows], dtype=np.int64)
        partitions = np.array([number for number, _, _ in rows], dtype=np.int32)
        self._history.append(GroupSample(self.at, partitions, end, committed))
        following = np.minimum(np.maximum(committed, 0), end)
        found, _ = ages(self._history.times(), self._history.end(), following)
        waits = end > following
        return float(found[waits].max()) / NANOSECONDS if waits.any() else 0.0
