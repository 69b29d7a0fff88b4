"""Stretches that nobody saw: what could have happened in them is unknown, so it never passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lagbench.core.measures.model import NANOSECONDS, MeasureModel

BLIND_SECONDS = 3.5
"""Readings further apart than this leave a stretch unseen.

The recorder reads once a second, on a grid: one lost reading makes 2 s, two make 3 s and a jitter
of milliseconds, three make 4 s.
"""


class TelemetryGap(MeasureModel):
    """A stretch in which something was not seen."""

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
        """How long nothing was seen."""
        return (self.ended_at - self.started_at) / NANOSECONDS


def unseen_between(instants: Iterable[int], from_at: int, until_at: int) -> list[Unseen]:
    """Return the stretches of [from_at, until_at] that readings at ``instants`` leave unseen."""
    inside = sorted(at for at in instants if from_at <= at <= until_at)
    limit = BLIND_SECONDS * NANOSECONDS
    return [
        Unseen(left, right)
        for left, right in pairwise([from_at, *inside, until_at])
        if right - left > limit
    ]


def unseen_text(what: str, stretches: Sequence[Unseen], origin_at: int | None = None) -> str:
    """Return which stretches were not seen, in seconds after ``origin_at``; empty without any."""
    if not stretches:
        return ""
    longest = max(stretches, key=lambda stretch: stretch.seconds)
    text = f"{what} not seen for {longest.seconds:.1f} s"
    if origin_at is not None:
        text += f" from {(longest.started_at - origin_at) / NANOSECONDS:+.1f} s"
    more = len(stretches) - 1
    return text + (f" and in {more} more stretches" if more > 1 else " and once more" * more)
