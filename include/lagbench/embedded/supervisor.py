"""Own the embedded bench in one process: broker and localkube are its tied children.

It restarts nothing by itself: the end of a part is recorded, because a bench that hides a
lost broker would measure its own repair. SIGUSR1 begins the outage of the broker that a file
requests: after its length, or at SIGUSR2, the supervisor starts the broker again on the same port
and data, also if the sender has ended. SIGTERM ends the bench.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import logging
import os
import queue
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import lagbench
from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.embedded.bench_state import (
    BenchFiles,
    BenchState,
    LocalkubeProcess,
    ProcessRecord,
    install_autoscaler,
)
from lagbench.embedded.broker import Broker, ProxiedListener
from lagbench.embedded.child_server import ChildServer, PartState, free_port
from lagbench.embedded.jars import BROKER, is_cached
from lagbench.embedded.kafka_choice import (
    SERVERS_VARIABLE,
    ForeignCluster,
    embedded_port,
    foreign_cluster,
    write_atomically,
)
from lagbench.embedded.kept_log import put_aside
from lagbench.errors import ExitCode, LagbenchError, NotReady
from lagbench.project import STATE_VARIABLE, make_state_dir
from localkube.processes import GroupReaper
from pod_program.kafka_config import CONFIG_VARIABLE
from pod_program.kafka_settings import as_lines, checked

MARK_VARIABLE = "LAGBENCH_SUPERVISED_IN"
"""In the environment of every process of the bench: the state folder, so that ``down`` finds it."""

# Interval of the check for the end of a part, or of the process that the bench is attached to.
_TICK_SECONDS = 0.5
# A start competes with a whole run for two cores: over 90 s were seen at a load of 25.
_RESTART_SECONDS = 240.0
_TRY_AGAIN_SECONDS = 2.0
_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_ENDING = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
log = logging.getLogger("lagbench.supervisor")


class _BrokenOff(LagbenchError):
    """A request to end during the start; not a NotReady, which a step of the start would handle."""


class Supervisor:
    """Starts the parts, watches them, and stops them."""

    def __init__(self, state_dir: Path, *, attached_to: int | None) -> None:
        """Take over ``state_dir``; nothing is started yet."""
        self._files = BenchFiles(state_dir)
        self._attached_to = attached_to
        self._owner = ProcessRecord.of(attached_to) if attached_to is not None else None
        self._signals: queue.SimpleQueue[signal.Signals] = queue.SimpleQueue()
        self._is_starting = True
        self._started_at = datetime.now(UTC)
        self._foreign: ForeignCluster | None = None
        self._broker: Broker | None = None
        self._proxied: ProxiedListener | None = None
        self._localkube = LocalkubeProcess(self._files)
        self._reaper = GroupReaper()
        self._seen: tuple[PartState, PartState] = ("stopped", "stopped")
        self._broker_changed_at = 0
        self._start_broker_at: float | None = None
        """End of an outage, by the monotonic clock."""

    def run(self) -> int:
        """Serve until a signal or the owner's end; return the exit code."""
        for signum in _HANDLED:
            signal.signal(signum, self._on_signal)
        try:
            self._start()
            self._is_starting = False
            self._watch()
        except LagbenchError as error:
            log.error("start failed: %s", error)
            self._files.failure.write_text(str(error), encoding="utf-8")
            return int(error.exit_code)
        except OSError as error:  # a full disk takes no record of the end of a part
            log.error("the bench ends: %s", error)
            return int(ExitCode.NOT_READY)
        finally:
            self._is_starting = False
            self._stop()
        return 0

    def _start(self) -> None:
        self._foreign = foreign_cluster(self._files.kafka_port)
        put_aside(self._files)
        if self._foreign is None:
            port = embedded_port(self._files.kafka_port)
            behind_proxy = free_port(besides={port})
            self._proxied = ProxiedListener(
                port=behind_proxy, advertised_port=free_port(besides={port, behind_proxy})
            )
            self._broker = Broker(self._files.broker, port=port, proxied=self._proxied)
            servers = self._broker.bootstrap_servers
        else:
            servers = self._foreign.bootstrap_servers
            self._progress(f"using the Kafka cluster at {servers}")
            with KafkaAdmin(self._foreign.settings, timeout_seconds=10.0) as admin:
                admin.check_reachable()
        os.environ[MARK_VARIABLE] = str(self._files.state_dir)
        self._progress("starting localkube")
        self._localkube.launch(self._pod_environment(servers))
        self._watch_group(self._localkube)
        if self._broker is not None:
            self._start_broker_first_time(self._broker)
        self._localkube.await_serving()
        self._progress("starting the autoscaler")
        install_autoscaler(self._files.kubeconfig)
        self._record()
        self._progress("the bench is up")

    def _start_broker_first_time(self, broker: Broker) -> None:
        if not is_cached(BROKER):
            self._progress("fetching the broker's jars (45 MB, once)")
        self._progress(f"starting Apache Kafka {BROKER.version} on {broker.bootstrap_servers}")
        broker.start()
        self._watch_group(broker)

    def _watch(self) -> None:
        """Handle signals; record the end of a part; return when the owner has ended."""
        while True:
            try:
                signum = self._signals.get(timeout=self._tick_seconds())
            except queue.Empty:
                signum = None
            self._reaper.restart_if_killed()
            if signum in _ENDING:
                return
            if self._attached_to is not None and (
                self._owner is None or not self._owner.is_alive()
            ):
                log.info(
                    "process %d, which this bench is attached to, has ended", self._attached_to
                )
                return
            if self._broker is not None and signum == signal.SIGUSR1:
                self._stop_broker(self._broker)
            elif self._broker is not None and self._outage_is_over(signum):
                self._start_broker(self._broker)
            if self._part_states() != self._seen:
                self._note_change()

    def _tick_seconds(self) -> float:
        if self._start_broker_at is None:
            return _TICK_SECONDS
        return min(_TICK_SECONDS, max(0.0, self._start_broker_at - time.monotonic()))

    def _outage_is_over(self, signum: signal.Signals | None) -> bool:
        ends_at = self._start_broker_at
        return ends_at is not None and (signum == signal.SIGUSR2 or time.monotonic() >= ends_at)

    def _note_change(self) -> None:
        broker, localkube = self._part_states()
        log.warning("the broker is %s, localkube is %s", broker, localkube)
        for part in (self._broker, self._localkube):
            if part is not None and part.state() == "died":
                self._watch_group(part, has_ended=True)
        self._record()

    def _stop_broker(self, broker: Broker) -> None:
        outage = self._files.take_outage()
        if outage is None:
            return
        log.info("stopping the broker on request, for %g s", outage.seconds)
        self._watch_group(broker, has_ended=True)
        broker.stop()
        self._start_broker_at = time.monotonic() + outage.seconds

    def _start_broker(self, broker: Broker) -> None:
        self._start_broker_at = None
        log.info("starting the broker again")
        if broker.state() == "died":
            self._watch_group(broker, has_ended=True)
            broker.stop()
        try:
            broker.start(timeout_seconds=_RESTART_SECONDS)
        except NotReady as error:
            log.error("%s", error)
            # Else every client would wait for a broker that nobody starts, until its limits.
            self._start_broker_at = time.monotonic() + _TRY_AGAIN_SECONDS
            return
        self._watch_group(broker)

    def _stop(self) -> None:
        """Stop localkube with its pods first: consumers commit while the broker still runs."""
        log.info("stopping the bench")
        self._localkube.stop()
        if self._broker is not None:
            self._broker.stop()
            # A run that is accounted for can be rebuilt from its run folder alone.
            put_aside(self._files)
        self._reaper.close()
        self._files.kafka_config.unlink(missing_ok=True)  # it may hold a password
        self._files.forget()

    def _record(self) -> None:
        """Write the current state to ``bench.json``."""
        myself = ProcessRecord.of(os.getpid())
        if myself is None:
            raise NotReady("the supervisor cannot find itself in the process table")
        seen, self._seen = self._seen, self._part_states()
        broker, localkube = self._seen
        if broker != seen[0]:
            self._broker_changed_at = time.time_ns()
        source = self._foreign or self._broker
        servers = source.bootstrap_servers if source is not None else ""
        settings = self._foreign.settings if self._foreign else {"bootstrap.servers": servers}
        state = BenchState(
            version=lagbench.__version__,
            state_dir=self._files.state_dir,
            started_at=self._started_at,
            supervisor=myself,
            attached_to=self._attached_to,
            bootstrap_servers=servers,
            kafka_settings=settings,
            kafka="foreign" if self._foreign else "embedded",
            broker=_record_of(self._broker),
            broker_state=broker,
            broker_changed_at=self._broker_changed_at,
            proxied=self._proxied,
            kubeconfig=self._files.kubeconfig,
            kubernetes_url=self._localkube.url(),
            localkube=_record_of(self._localkube),
            localkube_state=localkube,
        )
        self._files.write_bench(state)

    def _part_states(self) -> tuple[PartState, PartState]:
        broker = self._broker.state() if self._broker is not None else "stopped"
        return broker, self._localkube.state()

    def _pod_environment(self, servers: str) -> dict[str, str]:
        """Return localkube's environment, which its pods inherit.

        The settings of a secured cluster are written for pods, tasks and Spark.
        """
        files, config = self._files, {}
        if self._foreign is None or len(self._foreign.settings) == 1:
            files.kafka_config.unlink(missing_ok=True)
        else:
            lines = as_lines(checked(self._foreign.settings, where="environment"))
            write_atomically(files.kafka_config, lines, mode=0o600)
            config = {CONFIG_VARIABLE: str(files.kafka_config)}
        return {
            **os.environ,
            "KUBECONFIG": str(files.kubeconfig),
            SERVERS_VARIABLE: servers,
            STATE_VARIABLE: str(files.state_dir),
            **config,
        }

    def _watch_group(self, part: ChildServer, *, has_ended: bool = False) -> None:
        """Kill the part's process group when this process ends, until it has ended itself."""
        if part.pid is not None:
            (self._reaper.forget if has_ended else self._reaper.watch)(part.pid)

    def _progress(self, text: str) -> None:
        log.info("%s", text)
        with self._files.progress.open("a", encoding="utf-8") as progress:
            progress.write(f"{text}\n")

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Queue the signal; abort a start at once (tied children end with this process)."""
        signum = signal.Signals(number)
        self._signals.put(signum)
        if self._is_starting and signum in _ENDING:
            self._is_starting = False
            raise _BrokenOff(f"the start was interrupted by {signum.name}")


def _record_of(part: ChildServer | None) -> ProcessRecord | None:
    is_running = part is not None and part.state() == "running"
    return ProcessRecord.of(part.pid) if is_running and part and part.pid is not None else None


@contextlib.contextmanager
def _only_supervisor(files: BenchFiles) -> Iterator[None]:
    """Hold the state folder's lock until the end: a second supervisor ends at once."""
    with files.supervisor_lock.open("a+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NotReady(f"another supervisor owns {files.state_dir}") from error
        yield


def main() -> int:
    """Run the supervisor of one state folder."""
    parser = argparse.ArgumentParser(prog="python -m lagbench.embedded.supervisor")
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--attached-to", type=int, metavar="PID")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    files = BenchFiles(options.state_dir)
    make_state_dir(files.state_dir)
    try:
        with _only_supervisor(files):
            myself = ProcessRecord.of(os.getpid())
            if myself is not None:
                files.write_supervisor(myself)
            return Supervisor(options.state_dir, attached_to=options.attached_to).run()
    except LagbenchError as error:
        log.error("%s", error)
        return int(error.exit_code)


if __name__ == "__main__":
    sys.exit(main())
