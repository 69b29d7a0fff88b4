"""Detect steps of this machine's wall clock, and record them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from lagbench.core.measures.evidence.clock_readings import ClockReading, ClockSteps, closest_reading
from lagbench.core.telemetry.records_of_programs import ClockStepped, Record

log = logging.getLogger(__name__)


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
