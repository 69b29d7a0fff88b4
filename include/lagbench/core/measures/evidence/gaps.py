"""Find gaps between readings: anything could have happened in a gap, so it never passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.telemetry.recorder import LagSample, ReadGap, ReplicaSample
from lagbench.core.telemetry.records import TelemetryRecord

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

    @classmethod
    def between(cls, what: str, started_at: int, ended_at: int, reason: str) -> TelemetryGap:
        """Return the gap with its length."""
        return cls(
            what=what,
            started_at=started_at,
            ended_at=ended_at,
            gap_seconds=(ended_at - started_at) / NANOSECONDS,
            reason=reason,
        )


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


def telemetry_gaps(
    records: Sequence[TelemetryRecord], *, from_at: int, until_at: int
) -> tuple[TelemetryGap, ...]:
    """Return the times in which readings failed or the recorder was silent, by start.

    Failed readings of one kind form one gap while at most ``GAP_SECONDS`` apart.
    """
    inside = [record for record in records if from_at <= record.at <= until_at]
    failed: dict[str, list[ReadGap]] = {}
    for record in inside:
        if isinstance(record, ReadGap):
            failed.setdefault(record.what, []).append(record)
    limit, gaps = GAP_SECONDS * NANOSECONDS, []
    for what, readings in failed.items():
        readings.sort(key=lambda reading: (reading.at, reading.reason))
        first = readings[0]
        for before, reading in pairwise([*readings, None]):
            if before is not None and (reading is None or reading.at - before.at > limit):
                gaps.append(TelemetryGap.between(what, first.at, before.at, first.reason))
                first = reading or first
    seen = sorted(r.at for r in inside if isinstance(r, LagSample | ReplicaSample | ReadGap))
    gaps += [
        TelemetryGap.between("recorder", left, right, "no record of the recorder")
        for left, right in pairwise(seen)
        if right - left > limit
    ]
    return tuple(sorted(gaps, key=lambda gap: (gap.started_at, gap.what)))
