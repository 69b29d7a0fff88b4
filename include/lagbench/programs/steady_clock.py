"""Provide wall-clock time that never jumps while the program runs, and detect clock steps.

Measurements must continue when the clock is set: durations and pace are the monotonic clock's, and
instants are the wall clock of the start plus the monotonic time since.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from lagbench.core.measures.evidence.clock_readings import ClockReading, ClockSteps, closest_reading
from lagbench.core.telemetry.records_of_programs import ClockStepped, Record

log = logging.getLogger(__name__)


class SteadyClock:
    """Unix nanoseconds: the wall clock at the start, then the monotonic one."""

    def __init__(self) -> None:
        """Read the wall clock once."""
        self._offset_ns = closest_reading(_read_clocks).offset_ns

    def now_ns(self) -> int:
        """Return the instant; a corrected wall clock shows after the next start only."""
        return self._offset_ns + time.monotonic_ns()


class ClockWatch:
    """Sends a ClockStepped whenever this machine's wall clock has stepped since the last look."""

    def __init__(self, source: str, send: Callable[[Record], None]) -> None:
        """Begin to watch; a step before this is not seen."""
        self._source = source
        self._send = send
        self._steps = ClockSteps(closest_reading(_read_clocks))

    def look(self) -> None:
        """Compare the clocks; made for once a second."""
        step_seconds = self._steps.take(_read_clocks())
        if step_seconds is None:
            return
        log.warning("the wall clock stepped by %+.3f s against the monotonic one", step_seconds)
        self._send(ClockStepped(at=time.time_ns(), source=self._source, step_seconds=step_seconds))


def _read_clocks() -> ClockReading:
    before_ns = time.monotonic_ns()
    wall_ns = time.time_ns()
    return ClockReading(before_ns, wall_ns, time.monotonic_ns())


def process_started_at() -> int:
    """Return when the operating system started this process, in unix ns (10 ms steps)."""
    return time.time_ns() - process_age_ns()


def process_age_ns() -> int:
    """Return how long ago the operating system started this process (10 ms steps)."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    started_ns = int(fields[19]) * 10_000_000  # starttime: 1/100 s since boot (proc_pid_stat(5))
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started_ns
