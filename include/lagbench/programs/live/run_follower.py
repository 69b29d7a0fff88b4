"""Follow a run until it ends: its records in, a live line of each group out."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal, Self

import msgspec
import psutil
import yaml
from pydantic import Field, ValidationError

from lagbench.adapters.kafka.telemetry_topic import TelemetryFollower, TelemetryLog
from lagbench.adapters.process.stop_signal import StopSignal
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.live.live_course import Course
from lagbench.core.live.live_line import (
    LiveCell,
    LiveCourse,
    LiveLine,
    LivePhase,
    LiveSpike,
    encode_line,
    has_room,
    seconds_to_next_line,
)
from lagbench.core.live.slo_standings import live_slos
from lagbench.core.policy.policy import Policy
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.consumer_kinds import kind_of
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_tail import spikes_of
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import UsageSample
from lagbench.errors import NotReady
from pod_program.flags import CommandLine, Flag, Settings

SOURCE = "live"
FENCE_PHASE = "fence_run"
FLUSH_SECONDS = 1.0
Wait = Callable[[float], bool]
"""Wait for that number of seconds; True: the owner has ended, or the follower shall end."""


def follow_run(
    folder: RunFolder, bootstrap_servers: str, longest_seconds: float, wait: Wait
) -> None:
    """Write lines until the run has ended, the wait says so, or a file is full.

    :raises NotReady: the run folder is not whole, or has a follower already.
    """
    groups = [GroupFollow(group, bootstrap_servers) for group in folder.groups]
    phase_log = PhaseLog(folder.phases)
    telemetry: TelemetryLog | None = TelemetryLog(bootstrap_servers, folder.names.telemetry_topic)
    for group in groups:
        group.follower.start()
    began, lines, due, is_over = time.monotonic(), 0, 0.0, False
    while not is_over:
        due += seconds_to_next_line(lines)
        late = time.monotonic() - began
        is_over = wait(max(due - late, 0.0)) or due >= longest_seconds
        due = max(due, late - 1.0)  # after a suspension: no burst of lines
        phases = phase_log.news()
        is_over = is_over or any(ends_run(phase) for phase in phases)
        # Records behind the fence do not belong to the run: none is read, none sent.
        if telemetry is not None and any(phase.name == FENCE_PHASE for phase in phases):
            _stop_reading(groups, telemetry)
            telemetry = None
        if telemetry is not None:
            telemetry.send(_usage())
        has_room = [group.write(phases, is_last=is_over) for group in groups]
        is_over = is_over or not all(has_room)
        lines += 1
    _stop_reading(groups, telemetry)


def _stop_reading(groups: list[GroupFollow], telemetry: TelemetryLog | None) -> None:
    for group in groups:
        group.follower.stop()
    if telemetry is not None:
        telemetry.flush(FLUSH_SECONDS)


def _usage() -> UsageSample:
    """Return what this process has cost."""
    process = psutil.Process()
    cpu = process.cpu_times()
    return UsageSample(
        at=time.time_ns(),
        source=SOURCE,
        component=SOURCE,
        cpu_seconds=cpu.user + cpu.system,
        memory_bytes=process.memory_info().rss,
    )


class GroupFollow:
    """Takes the records of one consumer group in a thread; the caller has lines written."""

    def __init__(self, folder: RunFolder, bootstrap_servers: str) -> None:
        """Open the file; nothing is read yet.

        :raises NotReady: the run folder is not whole, or the file has a follower already.
        """
        cell, scenario, limits = read_cell(folder)
        kind = kind_of(scenario.consumer.kind)
        self._folder = folder
        self._course = Course(
            cell,
            scenario.slos,
            limits,
            reports_owners=kind.reports_owners,
            reports_work=kind.has_reports,
            drain_seconds=scenario.timeouts.drain_seconds,
        )
        self._lock = threading.Lock()
        self._file = LiveFile(folder.live)
        topic = folder.names.telemetry_topic
        self.follower = TelemetryFollower(bootstrap_servers, topic, self._take, SOURCE)

    def write(self, phases: list[LivePhase], *, is_last: bool) -> bool:
        """Append the line of now; False: the file is full."""
        verdict = self._folder.summary().verdict if self._folder.verdict.is_file() else None
        with self._lock:
            for phase in phases:
                self._course.take_phase(phase)
                if phase.name == "inject_spike":  # then the manifest has what it may wait for
                    noted = self._folder.read_json(self._folder.manifest)
                    self._course.stream_planned_at = noted.get("stream_planned_at")
            line = self._course.line(time.time_ns(), verdict=verdict, is_last=is_last)
        return self._file.append(line)

    def _take(self, record: Record) -> None:
        with self._lock:
            self._course.take(record, time.time_ns())


def read_cell(folder: RunFolder) -> tuple[LiveCell, Scenario, PolicyLimits]:
    """Return the cell of the folder's group, its scenario and the limits of its policy.

    :raises NotReady: a file that plan_cell writes is missing or broken.
    """
    try:
        scenario = Scenario.model_validate(yaml.safe_load(folder.read_text(folder.scenario)))
        manifest = yaml.safe_load(folder.read_text(folder.policy))
    except (ValidationError, yaml.YAMLError) as broken:
        raise NotReady(
            f"{folder.path} is not a run folder as plan_cell writes it: {broken}"
        ) from None
    limits = Policy.read(manifest, where=str(folder.policy)).limits
    load = offered_load(scenario.profile)
    group: Literal["first", "second"] | None = None if folder.second is None else "first"
    before: dict[str, Any] | None = None
    if folder.prediction.is_file():
        before = folder.read_json(folder.prediction).get("before")
    course = (before or {}).get("course")
    cell = LiveCell(
        run_id=folder.reference,
        scenario=scenario.name,
        policy=str(folder.read_json(folder.manifest).get("policy")),
        partitions=scenario.partitions,
        planned_seconds=load.duration_seconds,
        settled_seconds=None if before is None else float(before["settled_seconds"]),
        floor_replicas=limits.started_replicas,
        ceiling_replicas=limits.ceiling_replicas,
        spikes=[
            LiveSpike(start_seconds=spike.start_seconds, end_seconds=spike.end_seconds)
            for spike in spikes_of(scenario, started_replicas=limits.started_replicas)
        ],
        slos=live_slos(scenario.slos),
        group="second" if folder.is_second else group,
        pod_rate_per_second=scenario.consumer.claimed_pod_rate_per_second,
        predicted=None if course is None else msgspec.convert(course, LiveCourse),
    )
    return cell, scenario, limits


LOOKS, LOOK_SECONDS = 10, 0.1
LAST_PHASE = "bench_down"
"""The last task of a Dag run that records its phase."""
_phase = msgspec.json.Decoder(LivePhase)


def is_followed(path: Path) -> bool:
    """Return whether a follower holds the file; False also without the file."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


class LiveFile:
    """``live.jsonl``, held by a lock while it is open. A reader sees whole lines only."""

    def __init__(self, path: Path) -> None:
        """Open the file for appending.

        :raises NotReady: another process appends to it, or it cannot be opened.
        """
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise NotReady(f"cannot write {path}: {error.strerror}") from error
        if not self._hold():
            os.close(self._file)
            raise NotReady(f"{path} already has a follower")
        self._size = os.fstat(self._file).st_size

    def __enter__(self) -> Self:
        """Hold the file."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the file go."""
        os.close(self._file)

    def append(self, line: LiveLine) -> bool:
        """Append the line with one write; False: the file is full, and nothing was written."""
        data = encode_line(line)
        if not has_room(self._size, data):
            return False
        self._size += os.write(self._file, data)
        return True

    def _hold(self) -> bool:
        """Take the lock; one who only looks whether it is held has it for an instant."""
        for _ in range(LOOKS):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(LOOK_SECONDS)
            else:
                return True
        return False


@dataclass(slots=True)
class PhaseLog:
    """Reads the phases that were added since the last time."""

    path: Path
    _position: int = 0

    def news(self) -> list[LivePhase]:
        """Return the new phases; an incomplete line is read the next time."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self._position)
            lines = [line for line in file if line.endswith(b"\n")]
            self._position += sum(map(len, lines))
            return [_phase.decode(line) for line in lines]
        return []


def ends_run(phase: LivePhase) -> bool:
    """Return whether no other phase of the run follows."""
    return phase.name == LAST_PHASE and phase.state != "started"


def failures_of(phases: Iterable[LivePhase]) -> list[LivePhase]:
    """Return the phases that failed and were not repeated, by their instant."""
    newest: dict[str, LivePhase] = {}
    for phase in phases:
        newest.pop(phase.name, None)
        newest[phase.name] = phase
    return [phase for phase in newest.values() if phase.state == "failed"]


LONGEST_SECONDS = 4 * 86_400
"""The longest time that a Dag run may take."""


class FollowerSettings(Settings):
    """lagbench's follower of a run: it writes live.jsonl of the run folder."""

    run_folder: Path = Field(description="folder of the run, as plan_cell has made it")
    bootstrap_servers: Annotated[str, Flag(variables=("KAFKA_BOOTSTRAP_SERVERS",))] = Field(
        min_length=1, description="host:port of Kafka"
    )
    owner_pid: int = Field(ge=1, description="process with which the follower ends")
    longest_seconds: float = Field(
        LONGEST_SECONDS, gt=0, le=LONGEST_SECONDS, description="time after which it ends anyway"
    )


def parse_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> FollowerSettings:
    """Return the settings that the command line and the environment state.

    :raises WrongInput: a flag is unknown, missing or out of range.
    """
    line = CommandLine(FollowerSettings, module="lagbench.programs.live")
    return line.read(arguments, environment)


class OwnerWatch:
    """Shows the end of the owner, also after SIGKILL, and a request to end."""

    def __init__(self, owner_pid: int) -> None:
        """Hold the owner's process; a number that is used again later is another one.

        :raises ProcessLookupError: there is no such process.
        """
        self._poll = select.poll()
        self._owner = os.pidfd_open(owner_pid)
        self._asked = StopSignal()
        for descriptor in (self._owner, self._asked.fileno()):
            self._poll.register(descriptor, select.POLLIN)

    def ask(self) -> None:
        """Let the wait in progress end; safe in a signal handler."""
        self._asked.set()

    def wait(self, seconds: float) -> bool:
        """Wait; True at once if the owner has ended or the end was asked for."""
        return bool(self._poll.poll(round(seconds * 1000)))
