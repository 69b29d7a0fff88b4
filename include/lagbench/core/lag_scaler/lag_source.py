"""Define the source of offsets: one batch per cluster and sampling interval, for all objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

# The offset of a partition without a commit, and of a log start that was not requested.
NO_OFFSET = -1

PartitionIds = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]


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


class LagSource(Protocol):
    """One cluster's offsets, for all requested groups at once."""

    def sample(self, wanted: Sequence[GroupTopic]) -> Mapping[GroupTopic, GroupSample]:
        """Return a sample for each requested group and topic; a failed one has an ``error``."""
        ...

    def close(self) -> None:
        """Close the connection; may be called twice."""
        ...


def failed_sample(at_ns: int, error: str) -> GroupSample:
    """Return the sample of a failed read: no offsets, and the error."""
    nothing = np.empty(0, dtype=np.int64)
    return GroupSample(at_ns, np.empty(0, dtype=np.int32), nothing, nothing, error=error)
