"""Follow one consumer group of a run: its records in, its live lines out."""

from __future__ import annotations

import threading
import time

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.live import Course, LivePhase
from lagbench.core.scenario import kind_of
from lagbench.core.telemetry import Record
from lagbench.programs.live.cell import read_cell
from lagbench.programs.live.live_file import LiveFile
from lagbench.programs.telemetry_follower import TelemetryFollower

SOURCE = "live"


class GroupFollow:
    """Takes the group's records in a thread of its own; the caller has lines written."""

    def __init__(self, folder: RunFolder, bootstrap_servers: str) -> None:
        """Open the file; nothing is read yet.

        :raises NotReady: the run folder is not whole, or the file has a follower already.
        """
        cell, scenario, limits = read_cell(folder)
        self._folder = folder
        kind = kind_of(scenario.consumer.kind)
        self._course = Course(
            cell,
            scenario.slos,
            limits,
            reports_owners=kind.reports_owners,
            reports_work=kind.has_reports,
        )
        self._lock = threading.Lock()
        self._file = LiveFile(folder.live)
        topic = folder.names.telemetry_topic
        self._follower = TelemetryFollower(bootstrap_servers, topic, self._take, SOURCE)

    def start(self) -> None:
        """Begin to read."""
        self._follower.start()

    def stop_reading(self) -> None:
        """Read no more records: behind the fence they do not belong to the run."""
        self._follower.stop()

    def write(self, phases: list[LivePhase], *, is_last: bool) -> bool:
        """Append the line of now; False: the file is full."""
        with self._lock:
            for phase in phases:
                self._course.take_phase(phase)
            line = self._course.line(time.time_ns(), verdict=self._verdict(), is_last=is_last)
        return self._file.append(line)

    def _take(self, record: Record) -> None:
        with self._lock:
            self._course.take(record, time.time_ns())

    def _verdict(self) -> str | None:
        return self._folder.summary().verdict if self._folder.verdict.is_file() else None
