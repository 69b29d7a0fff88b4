"""Notice a wall clock that steps against the monotonic one.

Both run at the same pace on Linux, also while the clock is slewed (NTP): their difference changes
when the wall clock is set, and when the machine is suspended, for the monotonic clock
(CLOCK_MONOTONIC) stands then. So what counts is how far they have come apart since the watch began,
or since the last step that was told: a few small steps make a large one. A step that is taken back
between two readings is not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lagbench.core.measures.model import NANOSECONDS

STEP_SECONDS = 0.1
"""More than this is a step: a bin of the timeline, and what the producer's p99 may be late."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The wall clock (unix ns), read between two readings of the monotonic clock (ns)."""

    monotonic_before_ns: int
    wall_ns: int
    monotonic_after_ns: int

    @property
    def width_ns(self) -> int:
        """How exactly the two are known of each other: the process may have waited between."""
        return self.monotonic_after_ns - self.monotonic_before_ns

    @property
    def least_offset_ns(self) -> int:
        """Wall clock less monotonic clock, at least."""
        return self.wall_ns - self.monotonic_after_ns

    @property
    def offset_ns(self) -> int:
        """Wall clock less monotonic clock, in the middle of what it may be."""
        return self.least_offset_ns + self.width_ns // 2


def closest_reading(read: Callable[[], ClockReading], tries: int = 5) -> ClockReading:
    """Return the most exact of some readings: a busy machine interrupts one now and then."""
    return min((read() for _ in range(tries)), key=lambda reading: reading.width_ns)


class ClockSteps:
    """Tells the steps of one wall clock from readings of it."""

    def __init__(self, first: ClockReading) -> None:
        """Compare with ``first``."""
        self._before = first

    def take(self, reading: ClockReading) -> float | None:
        """Return by how many seconds the clock has stepped (above 0: forward), None: it has not.

        A reading counts only as far as it is exact: one that was interrupted proves no step.
        """
        before = self._before
        moved_ns = reading.offset_ns - before.offset_ns
        unsure_ns = (reading.width_ns + before.width_ns + 1) // 2
        if abs(moved_ns) - unsure_ns <= STEP_SECONDS * NANOSECONDS:
            return None
        self._before = reading
        return moved_ns / NANOSECONDS
