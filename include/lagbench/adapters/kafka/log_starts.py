"""Choose the partitions whose log start a sample requests: it costs one request more per broker.

Where a commit moves, the group reads records that are in the log. Where it stands still although
records wait, retention may have passed it: expired records are not lag.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagbench.core.lag_scaler import NO_OFFSET, GroupSample, GroupTopic, Offsets, PartitionIds

STARTS_KEPT_SECONDS = 5.0
"""Shortest time between two requests for the log starts of a group whose commits stand still.

Brokers look for expired records every five minutes by default."""


@dataclass(slots=True)
class _Seen:
    partitions: PartitionIds
    committed: Offsets
    asked_at: float | None = None


class LogStarts:
    """Compares the commits of each group and topic with those of its last good sample."""

    def __init__(self) -> None:
        """Begin without a sample."""
        self._seen: dict[GroupTopic, _Seen] = {}

    def forget(self, item: GroupTopic) -> None:
        """Forget the last sample of a group and topic."""
        self._seen.pop(item, None)

    def unsure(self, item: GroupTopic, sample: GroupSample, now: float) -> npt.NDArray[np.intp]:
        """Return the places of the partitions whose log start is to be requested.

        :param now: of a monotonic clock, in seconds.
        """
        if sample.error:
            return np.empty(0, dtype=np.intp)
        before = self._seen.get(item)
        seen = self._seen[item] = _Seen(sample.partitions, sample.committed)
        no_commit = sample.committed == NO_OFFSET
        if before is not None:
            seen.asked_at = before.asked_at
        if seen.asked_at is not None and now - seen.asked_at < STARTS_KEPT_SECONDS:
            return np.flatnonzero(no_commit)
        waits = ~no_commit & (sample.committed < sample.end)
        if before is not None and np.array_equal(before.partitions, sample.partitions):
            waits &= before.committed == sample.committed
        if waits.any():
            seen.asked_at = now
        return np.flatnonzero(no_commit | waits)
