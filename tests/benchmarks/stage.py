"""Provide the place of a measurement: a temporary folder, a broker, children that end with it."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import TypeVar

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kafka.telemetry_topic import first_record
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.telemetry.records_of_programs import StreamFinished, StreamStarted
from lagbench.embedded.broker import Broker
from lagbench.errors import NotReady, StillWaiting
from localkube.processes import GroupReaper, end_process, start_tied

LEDGER_PARTITIONS = 6
_END_GRACE_SECONDS = 20.0
_LOG_TAIL_LINES = 15
Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class Child:
    """A child process with its log file."""

    name: str
    process: Popen[bytes]
    log: Path

    def require_success(self) -> None:
        """Raise ``NotReady`` with the last lines of the log if it ended with another code."""
        if self.process.returncode not in (None, 0):
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            tail = "\n".join(f"  | {line}" for line in lines[-_LOG_TAIL_LINES:])
            raise NotReady(f"{self.name} ended with code {self.process.returncode}:\n{tail}")


@dataclass(frozen=True, slots=True)
class Stage:
    """Starts what a measurement needs; all of it ends with the block of ``open_stage``."""

    folder: Path
    _ends: ExitStack
    _reaper: GroupReaper

    def start_broker(self) -> Broker:
        """Return a running broker with an empty log."""
        broker = Broker(self.folder / "broker")
        self._ends.callback(broker.stop)
        broker.start()
        if broker.pid is not None:
            self._reaper.watch(broker.pid)
        return broker

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Child:
        """Start a child; ``environment`` is added to this process's own."""
        log = self.folder / f"{name}.log"
        with log.open("ab") as output:
            process = start_tied(
                command, log=output, env={**os.environ, **(environment or {})}, cwd=self.folder
            )
        child = Child(name, process, log)
        self._reaper.watch(process.pid)
        self._ends.callback(self.end, child)
        return child

    def start_program(
        self, name: str, module: str, flags: Sequence[str], environment: Mapping[str, str]
    ) -> Child:
        """Start ``python -m module`` as a child."""
        return self.start(name, [sys.executable, "-m", module, *flags], environment)

    def end(self, child: Child) -> None:
        """End a child and wait for it; no effect when it has ended."""
        end_process(child.process.pid, grace_seconds=_END_GRACE_SECONDS)
        child.process.wait(timeout=10)
        self._reaper.forget(child.process.pid)

    def finish(
        self, child: Child, *, within_seconds: float, watch: Callable[[], None] = lambda: None
    ) -> None:
        """Wait until a child ends by itself, with code 0; ``watch`` is called meanwhile."""

        def has_ended() -> bool:
            watch()
            return child.process.poll() is not None

        await_true(has_ended, f"the end of {child.name}", within_seconds=within_seconds)
        child.require_success()


def await_true(
    look: Callable[[], Seen | None],
    what: str,
    *,
    within_seconds: float,
    every_seconds: float = 0.2,
    needs: Sequence[Child] = (),
) -> Seen:
    """Return the first value of ``look`` that counts as true.

    :raises NotReady: a child of ``needs`` failed meanwhile.
    :raises StillWaiting: the time was over first.
    """
    gives_up_at = time.monotonic() + within_seconds
    while not (seen := look()):
        for child in needs:
            child.process.poll()
            child.require_success()
        if time.monotonic() > gives_up_at:
            raise StillWaiting(f"not within {within_seconds:.0f} s: {what}; saw {seen!r}")
        time.sleep(every_seconds)
    return seen


@contextmanager
def open_stage() -> Iterator[Stage]:
    """Yield a stage in a temporary folder; at the end its children and its folder are gone."""
    with tempfile.TemporaryDirectory(prefix="lagbench-bench-") as name, ExitStack() as ends:
        reaper = GroupReaper()
        ends.callback(reaper.close)
        yield Stage(Path(name), ends, reaper)


def create_topics(broker: Broker, names: RunNames, partitions: int) -> None:
    """Create the three topics of a run."""
    counts = {
        names.events_topic: partitions,
        names.processed_topic: LEDGER_PARTITIONS,
        names.telemetry_topic: 1,
    }
    with KafkaAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([TopicSpec(name, count) for name, count in counts.items()])


@dataclass(frozen=True, slots=True)
class Sent:
    """The first and the last word of a producer."""

    started: StreamStarted
    finished: StreamFinished

    @property
    def seconds(self) -> float:
        """From planned offset 0 to the last acknowledgement."""
        return (self.finished.at - self.started.stream_started_at) / 1e9


def send_load(
    stage: Stage, broker: Broker, names: RunNames, flags: Sequence[str], *, within_seconds: float
) -> Sent:
    """Run the real producer on the run's topics to its end.

    :raises NotReady: an event was not acknowledged, or the telemetry topic lacks its report.
    """
    servers, topic = broker.bootstrap_servers, names.telemetry_topic
    flags = ["--run-id", names.run_id, "--bootstrap-servers", servers, *flags]
    module, environment = "lagbench.programs.producer", {"POD_NAME": "producer"}
    child = stage.start_program(f"producer-{names.run_id}", module, flags, environment)
    stage.finish(child, within_seconds=within_seconds)
    started = first_record(servers, topic, StreamStarted)
    finished = first_record(servers, topic, StreamFinished)
    if started is None or finished is None:
        raise NotReady(f"{topic} lacks the producer's stream_started or stream_finished")
    return Sent(started, finished)
