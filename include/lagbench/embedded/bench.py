"""Start, stop and inspect the embedded bench, and connect to it.

One supervisor process owns everything. These functions start it, signal it and read its files, so
they work from any terminal and from Airflow's tasks.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from lagbench.core.cluster.own_deployment import KafkaSettings
from lagbench.core.scenario.run_names import NAMESPACE
from lagbench.embedded.bench_state import BenchFiles, BenchState, BrokerOutage, ProcessRecord
from lagbench.embedded.broker import require_disk
from lagbench.embedded.child_server import PartState
from lagbench.embedded.doctor import BenchStatus, Check, examine, status_of
from lagbench.embedded.java import find_java
from lagbench.embedded.kafka_choice import (
    CONNECTION_VARIABLE,
    SERVERS_VARIABLE,
    exclusive,
    foreign_cluster,
)
from lagbench.embedded.spark_packages import spark_environment
from lagbench.embedded.supervisor import MARK_VARIABLE
from lagbench.errors import NotReady, StillWaiting
from lagbench.project import STATE_VARIABLE, make_state_dir
from localkube.processes import end_process
from pod_program.kafka_config import CONFIG_VARIABLE

# Each step has its own limit: jars 600 s, the broker 240 s to format and 240 s to start,
# localkube 60 s, autoscaler 60 s. This is the limit of all of them together.
_UP_TIMEOUT_SECONDS = 900.0
# localkube gives its pods 30 s and gets 40 s itself; the broker gets 20 s.
_DOWN_TIMEOUT_SECONDS = 75.0
_BROKER_CHANGE_TIMEOUT_SECONDS = 120.0
_TICK_SECONDS = 0.1
_LEFTOVER_GRACE_SECONDS = 5.0


def up(state_dir: Path, *, attached: bool, on_progress: Callable[[str], None]) -> BenchState:
    """Return a running bench: the existing one, else a new one.

    With ``attached`` the bench ends with this process, however that ends; otherwise it runs until
    ``down``. A damaged bench (a part died) is replaced. An outage of
    the broker ends.
    """
    files = BenchFiles(state_dir)
    make_state_dir(files.state_dir)
    with exclusive(files.up_lock, timeout_seconds=_UP_TIMEOUT_SECONDS, purpose="start the bench"):
        found = running(state_dir)
        if found is not None and "died" not in {found.broker_state, found.localkube_state}:
            on_progress(f"the bench is up already (process {found.supervisor.pid})")
            if found.kafka == "embedded" and found.broker_state == "stopped":
                return start_broker(state_dir)
            return found
        if found is not None:
            on_progress("a part of the bench died: restarting it")
        down(state_dir)
        find_java()  # the errors that would come up later, before anything is started
        if foreign_cluster(files.kafka_port) is None:
            require_disk(files.broker)
        files.failure.unlink(missing_ok=True)
        files.progress.write_text("", encoding="utf-8")
        supervisor = _start_supervisor(files, attached=attached)
        try:
            return _await_up(files, supervisor, on_progress)
        except BaseException:  # also Ctrl-C: the supervisor that this call started must not stay
            end_process(supervisor.pid, grace_seconds=_DOWN_TIMEOUT_SECONDS)
            raise


def down(state_dir: Path) -> list[str]:
    """Stop the bench and return the stopped parts; also works after a crash and when repeated."""
    files = BenchFiles(state_dir)
    stopped: list[str] = []
    bench, supervisor = files.read_bench(), files.read_supervisor()
    if supervisor is not None and supervisor.is_alive():
        names = ["broker"] if bench is not None and bench.broker is not None else []
        stopped = ["supervisor", *names, "localkube"]
        end_process(
            supervisor.pid, grace_seconds=_DOWN_TIMEOUT_SECONDS, started_at=supervisor.started_at
        )
    for process in _leftovers(files):
        with contextlib.suppress(psutil.NoSuchProcess):
            stopped.append(f"left-over process {process.pid} ({process.name()})")
            end_process(process.pid, grace_seconds=_LEFTOVER_GRACE_SECONDS)
    files.forget()
    return stopped


def running(state_dir: Path) -> BenchState | None:
    """Return the bench whose supervisor runs, None if there is none."""
    state = BenchFiles(state_dir).read_bench()
    return state if state is not None and state.supervisor.is_alive() else None


def status(state_dir: Path) -> BenchStatus:
    """Return each part with its state, process, age, memory and address."""
    return status_of(BenchFiles(state_dir).read_bench())


def doctor(state_dir: Path) -> list[Check]:
    """Examine the machine and the bench; starts and changes nothing."""
    files = BenchFiles(state_dir)
    state = running(state_dir)
    left_over = [] if state is not None else [process.pid for process in _leftovers(files)]
    return examine(files, state, left_over)


def restart_broker(state_dir: Path, *, outage_seconds: float) -> BenchState:
    """Have the broker stopped and, after the outage, started; return when it has ended.

    The supervisor starts it on the same port and data, also if this process ends meanwhile;
    ``await_broker`` waits for that.
    """
    BenchFiles(state_dir).ask_for_outage(BrokerOutage(seconds=outage_seconds))
    return _change_broker(state_dir, signal.SIGUSR1, "stopped")


def start_broker(state_dir: Path) -> BenchState:
    """End an outage of the broker now; return when it answers clients."""
    return _change_broker(state_dir, signal.SIGUSR2, "running")


def _change_broker(state_dir: Path, signum: signal.Signals, wanted: PartState) -> BenchState:
    state = running(state_dir)
    if state is None:
        raise NotReady(f"no bench runs in {state_dir}; start it with `lagbench up`")
    if state.kafka == "foreign":
        raise NotReady(
            f"the Kafka cluster {state.bootstrap_servers} is not the bench's own: stop it yourself"
        )
    os.kill(state.supervisor.pid, signum)
    return _await_broker(state_dir, wanted, _BROKER_CHANGE_TIMEOUT_SECONDS)


def await_broker(state_dir: Path, *, timeout_seconds: float) -> BenchState:
    """Return when the embedded broker answers clients.

    :raises NotReady: the bench has ended, or its broker is not back in time.
    """
    return _await_broker(state_dir, "running", timeout_seconds)


def has_own_broker(state_dir: Path) -> bool:
    """Return whether the bench of this state folder runs its own broker, now or when it starts."""
    state = running(state_dir)
    if state is not None:
        return state.kafka == "embedded"
    return foreign_cluster(BenchFiles(state_dir).kafka_port) is None


def kafka_settings(state_dir: Path) -> KafkaSettings:
    """Return the settings of the bench's Kafka as its pods have them, now or when it starts.

    :raises WrongInput: the connection that the environment names is not valid.
    """
    files, state = BenchFiles(state_dir), running(state_dir)
    if state is not None:
        values = state.kafka_settings
    else:
        foreign = foreign_cluster(files.kafka_port)
        values = {} if foreign is None else foreign.settings
    # More than an address is in a file.
    return KafkaSettings(values, str(files.kafka_config) if len(values) > 1 else None)


def connections(state: BenchState) -> dict[str, str]:
    """Return the environment that connects Airflow and its tasks to the bench."""
    kubernetes = {"kube_config_path": str(state.kubeconfig), "namespace": NAMESPACE}
    is_secured = len(state.kafka_settings) > 1
    config = {CONFIG_VARIABLE: str(BenchFiles(state.state_dir).kafka_config)} if is_secured else {}
    return {
        CONNECTION_VARIABLE: json.dumps({"conn_type": "kafka", "extra": state.kafka_settings}),
        "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps(
            {"conn_type": "kubernetes", "extra": kubernetes}
        ),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "KUBECONFIG": str(state.kubeconfig),
        SERVERS_VARIABLE: state.bootstrap_servers,
        STATE_VARIABLE: str(state.state_dir),
        **config,
        **spark_environment(),
    }


def _start_supervisor(files: BenchFiles, *, attached: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "lagbench.embedded.supervisor"]
    command += ["--state-dir", str(files.state_dir)]
    if attached:
        command += ["--attached-to", str(os.getpid())]
    with files.log.open("ab") as log:
        # Its own session: Ctrl-C in this terminal must reach it as an orderly request.
        supervisor = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=files.state_dir,
            start_new_session=True,
        )
    record = ProcessRecord.of(supervisor.pid)
    if record is not None:  # it records this itself too, but 0.4 s later; `down` may come sooner
        files.write_supervisor(record)
    return supervisor


def _await_up(
    files: BenchFiles, supervisor: subprocess.Popen[bytes], on_progress: Callable[[str], None]
) -> BenchState:
    """Report the supervisor's progress until ``bench.json`` exists or the supervisor has ended."""
    deadline = time.monotonic() + _UP_TIMEOUT_SECONDS
    printed = 0
    while time.monotonic() < deadline:
        state = files.read_bench()
        lines = files.progress.read_text(encoding="utf-8").splitlines()
        for line in lines[printed:]:
            on_progress(line)
        printed = len(lines)
        if state is not None and state.supervisor.pid == supervisor.pid:
            return state
        try:
            code = supervisor.wait(timeout=_TICK_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        if files.failure.is_file():
            raise NotReady(files.failure.read_text(encoding="utf-8"))
        raise NotReady(f"the bench's supervisor ended with code {code}; see {files.log}")
    raise StillWaiting(f"the bench was not up within {_UP_TIMEOUT_SECONDS:.0f} s; see {files.log}")


def _await_broker(state_dir: Path, wanted: PartState, timeout_seconds: float) -> BenchState:
    deadline = time.monotonic() + timeout_seconds
    seen = running(state_dir)
    while seen is not None and time.monotonic() < deadline:
        if seen.broker_state == wanted:
            return seen
        time.sleep(_TICK_SECONDS)
        seen = running(state_dir)
    if seen is None:
        raise NotReady(f"the supervisor ended meanwhile; see {BenchFiles(state_dir).log}")
    raise StillWaiting(
        f"the broker is still {seen.broker_state} after {timeout_seconds:.0f} s, "
        f"not {wanted}; see {BenchFiles(state_dir).log}"
    )


def _leftovers(files: BenchFiles) -> list[psutil.Process]:
    """Return the processes with the mark of a supervisor of this state folder."""
    found = []
    mark = str(files.state_dir)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            is_marked = process.environ().get(MARK_VARIABLE) == mark
            if is_marked and process.pid != os.getpid():
                found.append(process)
    supervisor: ProcessRecord | None = files.read_supervisor()
    owner = supervisor.pid if supervisor is not None and supervisor.is_alive() else None
    return [process for process in found if process.pid != owner]
