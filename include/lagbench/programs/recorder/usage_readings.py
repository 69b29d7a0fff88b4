"""CPU and memory of the bench's own parts, for the observer cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import psutil

from lagbench.core.telemetry.record import Record
from lagbench.core.telemetry.recorder import ReadGap, UsageSample


class UsageReading:
    """One sample per observed process; a process that has gone is a gap of its own."""

    def __init__(self, pids: Mapping[str, int], *, source: str) -> None:
        """Observe ``pids`` (by component name); which process each is, is fixed now."""
        self._source = source
        self._processes: dict[str, psutil.Process | None] = {}
        for component, pid in pids.items():
            try:
                self._processes[component] = psutil.Process(pid)
            except psutil.NoSuchProcess:
                self._processes[component] = None

    def __call__(self, at: int) -> Iterable[Record]:
        """Return a sample or a gap for each."""
        return [self._read(at, *item) for item in self._processes.items()]

    def _read(self, at: int, component: str, process: psutil.Process | None) -> Record:
        if process is not None:
            try:
                if process.is_running():  # tells a reused number apart
                    cpu, memory = process.cpu_times(), process.memory_info()
                    return UsageSample(
                        at=at,
                        source=self._source,
                        component=component,
                        cpu_seconds=cpu.user + cpu.system,
                        memory_bytes=memory.rss,
                    )
            except psutil.Error as error:
                return self._gap(at, f"{component}: {error}")
        return self._gap(at, f"{component}: the process does not run")

    def _gap(self, at: int, reason: str) -> ReadGap:
        return ReadGap(at=at, source=self._source, what="usage", reason=reason)
