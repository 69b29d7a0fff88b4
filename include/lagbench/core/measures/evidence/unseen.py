"""Find gaps between readings: anything could have happened in a gap, so it never passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lagbench.core.measures.model import NANOSECONDS, MeasureModel

BLIND_SECONDS = 3.5
"""Readings further apart than this leave a gap.

The recorder reads once a second, on a grid: one lost reading makes 2 s, two make 3 s plus a jitter
of milliseconds, three make 4 s.
"""


class TelemetryGap(MeasureModel):
    """A gap in the readings of ``what``."""

    what: str
    started_at: int
    ended_at: int
    gap_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Unseen:
    """A stretch without a reading."""

    started_at: int
    ended_at: int

    @property
    def seconds(self) -> float:
        """The length of the gap."""
        return (self.ended_at - self.started_at) / NANOSECONDS


def unseen_between(instants: Iterable[int], from_at: int, until_at: int) -> list[Unseen]:
    """Return the gaps in [from_at, until_at] between the readings at ``instants``."""
    inside = sorted(at for at in instants if from_at <= at <= until_at)
    limit = BLIND_SECONDS * NANOSECONDS
    return [
        Unseen(left, right)
        for left, right in pairwise([from_at, *inside, until_at])
        if right - left > limit
    ]


def unseen_text(what: str, stretches: Sequence[Unseen], origin_at: int | None = None) -> str:
    """Return the gaps in words, in seconds after ``origin_at``; empty without any."""
    if not stretches:
        return ""
    longest = max(stretches, key=lambda stretch: stretch.seconds)
    text = f"{what} not seen for {longest.seconds:.1f} s"
    if origin_at is not None:
        text += f" from {(longest.started_at - origin_at) / NANOSECONDS:+.1f} s"
    more = len(stretches) - 1
    return text + (f" and in {more} more stretches" if more > 1 else " and once more" * more)
