"""Wall-clock time that never jumps while the program runs: windows must outlive a restart."""

from __future__ import annotations

import time


class SteadyClock:
    """Unix nanoseconds: the wall clock at the start, then the monotonic one."""

    def __init__(self) -> None:
        """Read the wall clock once."""
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ns(self) -> int:
        """Return the instant; a corrected wall clock shows after the next start only."""
        return self._offset_ns + time.monotonic_ns()
