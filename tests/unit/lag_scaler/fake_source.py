"""A cluster whose offsets a test sets, and which can be away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lag_scaler.addresses import SourceAddress
from lag_scaler.offsets import GroupSample, GroupTopic, failed_sample
from lag_scaler.sources import LagSource


@dataclass
class FakeCluster:
    """Two partitions; ``lag`` is that of each, for every group."""

    lag: int = 100
    error: str = ""
    batches: list[list[GroupTopic]] = field(default_factory=list)
    opened: int = 0

    def open(self, address: SourceAddress, now_ns: Callable[[], int]) -> LagSource:
        """Return the source of this cluster."""
        self.opened += 1
        return _FakeSource(self, now_ns)


@dataclass
class _FakeSource:
    cluster: FakeCluster
    now_ns: Callable[[], int]

    def sample(self, wanted: Sequence[GroupTopic]) -> Mapping[GroupTopic, GroupSample]:
        self.cluster.batches.append(list(wanted))
        at_ns = self.now_ns()
        if self.cluster.error:
            return {item: failed_sample(at_ns, self.cluster.error) for item in wanted}
        end = np.full(2, 10_000, dtype=np.int64)
        partitions = np.arange(2, dtype=np.int32)
        return {
            item: GroupSample(at_ns, partitions, end, end - self.cluster.lag) for item in wanted
        }

    def close(self) -> None:
        return
