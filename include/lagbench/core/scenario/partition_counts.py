"""Define how many partitions the topic of a run has, over the seconds of its stream.

A topic can only grow. Producers learn of new partitions at their next refresh of the metadata: in a
run that is ``FOLLOW_SECONDS`` after the growth, so that the partition of each message is part of
the plan and does not depend on when a client asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

FOLLOW_SECONDS = 2.0
"""From a growth until the producer uses the new partitions. The broker has them within 0.2 s."""
MOST_PARTITIONS = 1000
_PART = re.compile(r"(\d+(?:\.\d+)?):(\d+)")
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Growth:
    """From a second of the stream on the topic has this many partitions."""

    at_seconds: float
    partitions: int

    def __str__(self) -> str:
        return f"{self.at_seconds:.12g}:{self.partitions}"


class PartitionCounts:
    """The partitions of the topic over the stream; instants count from the stream's start."""

    def __init__(self, first: int, growths: Sequence[Growth] = ()) -> None:
        """Lay out the course: ``first`` partitions, then those of each growth.

        :raises ValueError: a growth adds nothing, or is not later than the one before.
        """
        self.first = first
        self.growths = tuple(sorted(growths, key=lambda growth: growth.at_seconds))
        for before, after in pairwise((Growth(-1.0, first), *self.growths)):
            if not before.partitions < after.partitions <= MOST_PARTITIONS:
                raise ValueError(
                    f"partitions must be above {before.partitions} and at most {MOST_PARTITIONS}: "
                    "a topic can only grow"
                )
            if after.at_seconds <= before.at_seconds:
                raise ValueError("growths must have different seconds of the stream")

    @classmethod
    def of_text(cls, first: int, text: str) -> PartitionCounts:
        """Read ``40:24,90:48``: 24 partitions from second 40 on, 48 from second 90.

        :raises ValueError: the text is none of these, or ``PartitionCounts`` rejects it.
        """
        found = []
        for part in filter(None, text.split(",")):
            match = _PART.fullmatch(part)
            if match is None:
                raise ValueError(f"{part!r} is not of the form SECOND:PARTITIONS")
            found.append(Growth(float(match[1]), int(match[2])))
        return cls(first, found)

    @property
    def text(self) -> str:
        """Return the growths as ``of_text`` reads them."""
        return ",".join(map(str, self.growths))

    @property
    def most(self) -> int:
        """Return the partitions at the end."""
        return self.growths[-1].partitions if self.growths else self.first

    def used_at(self, offsets_ns: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return how many partitions the producer uses for messages planned at these offsets.

        :param offsets_ns: nanoseconds from the stream's start, any shape; so is the result.
        """
        begins = [round((g.at_seconds + FOLLOW_SECONDS) * _NS) for g in self.growths]
        counts = np.array([self.first, *(g.partitions for g in self.growths)], dtype=np.int64)
        return counts[np.searchsorted(begins, np.asarray(offsets_ns), side="right")]
