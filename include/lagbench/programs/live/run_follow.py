"""Follow a run until it ends: a line each second, later fewer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil

from lagbench.adapters.kafka.telemetry_log import TelemetryLog
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.live import LivePhase, seconds_to_next_line
from lagbench.core.telemetry import UsageSample
from lagbench.programs.live.group_follow import SOURCE, GroupFollow
from lagbench.programs.live.phase_log import PhaseLog, ends_run

FENCE_PHASE = "fence_run"
FLUSH_SECONDS = 1.0
Wait = Callable[[float], bool]
"""Wait for that number of seconds; True: the owner has ended, or the follower shall end."""


@dataclass(slots=True)
class RunFollow:
    """All groups of one run."""

    folder: RunFolder
    bootstrap_servers: str
    longest_seconds: float
    groups: list[GroupFollow] = field(init=False)
    _phases: PhaseLog = field(init=False)
    _telemetry: TelemetryLog | None = field(init=False)

    def __post_init__(self) -> None:
        """Open the files.

        :raises NotReady: the run folder is not whole, or has a follower already.
        """
        self.groups = [GroupFollow(group, self.bootstrap_servers) for group in self.folder.groups]
        self._phases = PhaseLog(self.folder.phases)
        topic = self.folder.names.telemetry_topic
        self._telemetry = TelemetryLog(self.bootstrap_servers, topic)

    def follow(self, wait: Wait) -> None:
        """Write lines until the run has ended, the wait says so, or a file is full."""
        for group in self.groups:
            group.start()
        began, lines, due, is_over = time.monotonic(), 0, 0.0, False
        while not is_over:
            due += seconds_to_next_line(lines)
            late = time.monotonic() - began
            is_over = wait(max(due - late, 0.0)) or due >= self.longest_seconds
            due = max(due, late - 1.0)  # after a suspension: no burst of lines
            phases = self._phases.news()
            is_over = is_over or any(ends_run(phase) for phase in phases)
            self._observe_cost(phases)
            has_room = [group.write(phases, is_last=is_over) for group in self.groups]
            is_over = is_over or not all(has_room)
            lines += 1
        for group in self.groups:
            group.stop_reading()
        self._close_telemetry()

    def _observe_cost(self, phases: list[LivePhase]) -> None:
        """Report the CPU time of this process, up to the fence: later records are not read."""
        if any(phase.name == FENCE_PHASE for phase in phases):
            for group in self.groups:
                group.stop_reading()
            self._close_telemetry()
        if self._telemetry is None:
            return
        process = psutil.Process()
        cpu = process.cpu_times()
        self._telemetry.send(
            UsageSample(
                at=time.time_ns(),
                source=SOURCE,
                component=SOURCE,
                cpu_seconds=cpu.user + cpu.system,
                memory_bytes=process.memory_info().rss,
            )
        )

    def _close_telemetry(self) -> None:
        if self._telemetry is not None:
            self._telemetry.flush(FLUSH_SECONDS)
            self._telemetry = None
