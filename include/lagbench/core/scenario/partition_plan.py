"""Define how many partitions the topic of a run has, on the clock of the stream.

The planned partition of a message goes by the number that is planned for its planned instant. So
the same seed gives each message the same partition in every run, whenever the new partitions came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagbench.core.kubernetes.instants import NS_PER_SECOND
from lagbench.core.scenario.actions import ActionBase, GrowPartitions

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """``first`` partitions at the start, then each growth: (second of the stream, partitions)."""

    first: int
    growths: tuple[tuple[float, int], ...] = ()

    def __post_init__(self) -> None:
        """Reject growths that do not grow."""
        second, count = -1.0, self.first
        for at, partitions in self.growths:
            if at <= second or partitions <= count:
                raise ValueError(
                    f"growth {at:g}:{partitions}: seconds and partitions must ascend from {count}"
                )
            second, count = at, partitions

    @property
    def last(self) -> int:
        """Return the partitions at the end."""
        return self.growths[-1][1] if self.growths else self.first

    @property
    def instants_ns(self) -> tuple[tuple[int, int], ...]:
        """Return the growths as (planned offset in nanoseconds, partitions)."""
        return tuple((round(at * NS_PER_SECOND), partitions) for at, partitions in self.growths)

    def at(self, second: float) -> int:
        """Return the partitions at a second of the stream."""
        past = [partitions for at, partitions in self.growths if at <= second]
        return past[-1] if past else self.first

    def at_offsets(self, planned_offset_ns: npt.NDArray[np.int64]) -> Counts:
        """Return the partitions at each planned offset."""
        instants = np.array([at for at, _ in self.instants_ns], dtype=np.int64)
        counts = np.array([self.first, *(count for _, count in self.growths)], dtype=np.int64)
        found: Counts = counts[np.searchsorted(instants, planned_offset_ns, side="right")]
        return found


def partition_plan(partitions: int, actions: Sequence[ActionBase]) -> PartitionPlan:
    """Return the plan of a topic that begins with ``partitions``."""
    growths = (
        (action.at_seconds, action.partitions)
        for action in actions
        if isinstance(action, GrowPartitions) and action.at_seconds is not None
    )
    return PartitionPlan(partitions, tuple(sorted(growths)))
