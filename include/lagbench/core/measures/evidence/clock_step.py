"""Detect a clock step: a wall clock that moves against the monotonic clock.

Both run at the same rate on Linux, even while the clock is slewed (NTP). Their difference changes
when the wall clock is set, and when the machine is suspended, because the monotonic clock
(CLOCK_MONOTONIC) stops then. The difference is compared with its value at the start of the watch or
at the last reported step, so several small steps add up to a large one. A step that is undone
between two readings is not detected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lagbench.core.measures.model import NANOSECONDS

STEP_SECONDS = 0.1
"""More than this is a step: one bin of the timeline, and the limit of the producer's p99."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The wall clock (unix ns), read between two readings of the monotonic clock (ns)."""

    monotonic_before_ns: int
    wall_ns: int
    monotonic_after_ns: int

    @property
    def width_ns(self) -> int:
        """The precision of the reading: the process may have waited between the clocks."""
        return self.monotonic_after_ns - self.monotonic_before_ns

    @property
    def least_offset_ns(self) -> int:
        """Wall clock minus monotonic clock, lower bound."""
        return self.wall_ns - self.monotonic_after_ns

    @property
    def offset_ns(self) -> int:
        """Wall clock minus monotonic clock, middle of the possible range."""
        return self.least_offset_ns + self.width_ns // 2


def closest_reading(read: Callable[[], ClockReading], tries: int = 5) -> ClockReading:
    """Return the most exact of several readings: a busy machine sometimes interrupts one."""
    return min((read() for _ in range(tries)), key=lambda reading: reading.width_ns)


class ClockSteps:
    """Detect the steps of one wall clock from its readings."""

    def __init__(self, first: ClockReading) -> None:
        """Compare with ``first``."""
        self._before = first

    def take(self, reading: ClockReading) -> float | None:
        """Return the clock's step in seconds (above 0: forward); None: no step.

        A reading counts only within its precision: an interrupted reading proves no step.
        """
        before = self._before
        moved_ns = reading.offset_ns - before.offset_ns
        unsure_ns = (reading.width_ns + before.width_ns + 1) // 2
        if abs(moved_ns) - unsure_ns <= STEP_SECONDS * NANOSECONDS:
            return None
        self._before = reading
        return moved_ns / NANOSECONDS
