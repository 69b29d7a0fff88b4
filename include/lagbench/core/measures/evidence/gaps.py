"""Find gaps between readings: anything could have happened in a gap, so it never passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lagbench.core.measures.model import NANOSECONDS, MeasureModel

GAP_SECONDS = 3.5
"""Readings further apart than this leave a gap; no other module has a limit of its own.

The recorder reads once a second, on a grid: one lost reading makes 2 s, two make 3 s plus a jitter
of milliseconds, three make 4 s. A limit of 3.0 s would make a gap of two lost readings or none,
by the jitter alone; 3.5 s is as far from 3 s as from 4 s.
"""

READ_WITHIN_SECONDS = 1.5
"""Offsets may have been read this long after the stamp of their sample.

The recorder stamps a sample before it reads. It reads one sample at a time, so a reading has ended
when the next one is stamped.
"""


class TelemetryGap(MeasureModel):
    """A gap in the readings of ``what``."""

    what: str
    started_at: int
    ended_at: int
    gap_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without a reading."""

    started_at: int
    ended_at: int

    @property
    def seconds(self) -> float:
        """The length of the gap."""
        return (self.ended_at - self.started_at) / NANOSECONDS


def gaps_between(instants: Iterable[int], from_at: int, until_at: int) -> list[Gap]:
    """Return the gaps in [from_at, until_at] between the readings at ``instants``."""
    inside = sorted(at for at in instants if from_at <= at <= until_at)
    limit = GAP_SECONDS * NANOSECONDS
    return [
        Gap(left, right)
        for left, right in pairwise([from_at, *inside, until_at])
        if right - left > limit
    ]


def gaps_text(what: str, gaps: Sequence[Gap], origin_at: int | None = None) -> str:
    """Return the gaps in words, in seconds after ``origin_at``; empty without any."""
    if not gaps:
        return ""
    longest = max(gaps, key=lambda gap: gap.seconds)
    text = f"no reading of {what} for {longest.seconds:.1f} s"
    if origin_at is not None:
        text += f" from {(longest.started_at - origin_at) / NANOSECONDS:+.1f} s"
    more = len(gaps) - 1
    return text + (f" and in {more} more gaps" if more > 1 else " and once more" * more)
