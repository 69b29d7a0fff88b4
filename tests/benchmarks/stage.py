"""Provide the place of a measurement: a temporary folder, a broker, children that end with it."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import TypeVar

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.core.scenario.run_names import RunNames
from lagbench.embedded.broker import Broker
from lagbench.errors import NotReady, StillWaiting
from localkube.processes import GroupReaper, end_process, is_alive, start_tied

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

    @property
    def pid(self) -> int:
        """The process id, also of the process group."""
        return self.process.pid

    def log_tail(self) -> str:
        """Return the last lines that the child wrote."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"  | {line}" for line in lines[-_LOG_TAIL_LINES:])


@dataclass(slots=True)
class Stage:
    """Starts what a measurement needs; all of it ends with the block of ``open_stage``."""

    folder: Path
    _ends: ExitStack
    _reaper: GroupReaper
    _children: dict[str, Child] = field(default_factory=dict)

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
        self._children[name] = child
        self._reaper.watch(child.pid)
        self._ends.callback(self.end, child)
        return child

    def start_program(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        """Start ``python -m module`` as a child."""
        return self.start(name, [sys.executable, "-m", module, *arguments], environment)

    def ask_to_end(self, child: Child) -> None:
        """Send SIGTERM and return at once; the child's end is expected from now on."""
        self._children.pop(child.name, None)
        if is_alive(child.pid):
            child.process.terminate()

    def end(self, child: Child) -> None:
        """End a child and wait for it; no effect when it has ended."""
        self._children.pop(child.name, None)
        end_process(child.pid, grace_seconds=_END_GRACE_SECONDS)
        child.process.wait(timeout=10)
        self._reaper.forget(child.pid)

    def finish(
        self, child: Child, *, within_seconds: float, watch: Callable[[], None] = lambda: None
    ) -> None:
        """Wait for a child to end by itself, calling ``watch`` again and again meanwhile.

        :raises NotReady: it ended with another code than 0.
        """
        self._children.pop(child.name, None)  # its end is no surprise

        def has_ended() -> bool:
            watch()
            return child.process.poll() is not None

        self.await_true(has_ended, f"the end of {child.name}", within_seconds=within_seconds)
        code = child.process.returncode
        if code != 0:
            raise NotReady(f"{child.name} ended with code {code}:\n{child.log_tail()}")

    def await_true(
        self,
        look: Callable[[], Seen | None],
        what: str,
        *,
        within_seconds: float,
        every_seconds: float = 0.2,
    ) -> Seen:
        """Return the first value of ``look`` that counts as true.

        :raises NotReady: a child ended meanwhile.
        :raises StillWaiting: the time was over first.
        """
        gives_up_at = time.monotonic() + within_seconds
        while True:
            seen = look()
            if seen:
                return seen
            for child in self._children.values():
                if child.process.poll() is not None:
                    raise NotReady(
                        f"waiting for {what}, {child.name} ended with code "
                        f"{child.process.returncode}:\n{child.log_tail()}"
                    )
            if time.monotonic() > gives_up_at:
                raise StillWaiting(f"not within {within_seconds:.0f} s: {what}; saw {seen!r}")
            time.sleep(every_seconds)


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
