"""Provide wall-clock time that never jumps while the program runs.

Measurements must continue when the clock is set: durations and pace are the monotonic clock's, and
instants are the wall clock of the start plus the monotonic time since.
"""

from __future__ import annotations

import time
from pathlib import Path


class SteadyClock:
    """Unix nanoseconds: the wall clock at the start, then the monotonic one."""

    def __init__(self) -> None:
        """Read the wall clock once, the most exact of five times: a process may be interrupted."""
        _, self._offset_ns = min(_reading() for _ in range(5))

    def now_ns(self) -> int:
        """Return the instant; a corrected wall clock shows after the next start only."""
        return self._offset_ns + time.monotonic_ns()


def _reading() -> tuple[int, int]:
    """Return how long a look at the wall clock took, and its offset from the monotonic one."""
    before_ns = time.monotonic_ns()
    wall_ns = time.time_ns()
    width_ns = time.monotonic_ns() - before_ns
    return width_ns, wall_ns - before_ns - width_ns // 2


def process_started_at() -> int:
    """Return when the operating system started this process, in unix ns (10 ms steps)."""
    return time.time_ns() - process_age_ns()


def process_age_ns() -> int:
    """Return how long ago the operating system started this process (10 ms steps)."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    started_ns = int(fields[19]) * 10_000_000  # starttime: 1/100 s since boot (proc_pid_stat(5))
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started_ns
