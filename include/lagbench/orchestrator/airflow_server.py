"""Run the embedded Airflow with its web UI: one supervisor owns ``airflow standalone``.

``python -m lagbench.orchestrator.airflow_server --state-dir DIR --port PORT`` runs until SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import psutil

from lagbench.adapters.process.processes import GroupReaper, end_process, is_alive, start_tied
from lagbench.adapters.process.stop_signal import StopSignal
from lagbench.errors import NotReady
from lagbench.orchestrator.airflow_environment import (
    ADMIN,
    admin_password,
    airflow_command,
    airflow_environment,
    airflow_home,
    empty_temporary_folder,
    fail_abandoned_runs,
    prepare_database,
)

READY_LIMIT_SECONDS = 300
STOP_GRACE_SECONDS = 15


@dataclass(frozen=True, slots=True)
class AirflowServer:
    """A running Airflow: its process, its address and its user."""

    pid: int
    started_at: float
    url: str
    user: str
    target: str = "embedded"
    """The target of its Dags' runs; the connections are in its environment."""


def server_file(state_dir: Path) -> Path:
    """Return the file that names the running server."""
    return state_dir / "airflow.json"


def running_server(state_dir: Path) -> AirflowServer | None:
    """Return the server of this state folder, None if none runs."""
    try:
        server = AirflowServer(**json.loads(server_file(state_dir).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return server if is_alive(server.pid, started_at=server.started_at) else None


def start_server(
    state_dir: Path,
    connections: Mapping[str, str],
    *,
    port: int = 8080,
    target: str = "embedded",
    on_progress: Callable[[str], None] = lambda _: None,
    limit_seconds: float = READY_LIMIT_SECONDS,
) -> AirflowServer:
    """Start Airflow in the background and wait until the UI and the Dags answer.

    :param limit_seconds: how long to wait for them.
    :raises NotReady: the port is taken or Airflow did not come up; the message has its log's tail.
    """
    running = running_server(state_dir)
    if running is not None:
        require_target(running, target)
        return running
    _refuse_taken_port(port)
    prepare_database(state_dir)
    fail_abandoned_runs(state_dir)
    empty_temporary_folder(state_dir)
    home = airflow_home(state_dir)
    log_path = home / "standalone.log"
    environment = airflow_environment(state_dir, connections)
    environment |= {
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
    }
    command = [sys.executable, "-m", "lagbench.orchestrator.airflow_server"]
    command += ["--state-dir", str(state_dir), "--log", str(log_path)]
    with log_path.open("wb") as log:
        supervisor = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    server = AirflowServer(
        pid=supervisor.pid,
        started_at=psutil.Process(supervisor.pid).create_time(),
        url=f"http://127.0.0.1:{port}",
        user=ADMIN,
        target=target,
    )
    server_file(state_dir).write_text(json.dumps(asdict(server)))
    try:
        on_progress("waiting for Airflow's web server and its Dags")
        _wait_ready(server, state_dir, supervisor, log_path, limit_seconds)
    except BaseException:
        stop_server(state_dir)
        raise
    return server


def require_target(server: AirflowServer, target: str) -> None:
    """Reject a running Airflow whose Dags rehearse elsewhere.

    :raises NotReady: its target differs.
    """
    if server.target != target:
        raise NotReady(
            f"the running Airflow rehearses on {server.target}, not on {target}; stop it first "
            "(make down), or give the same target"
        )


def stop_server(state_dir: Path) -> bool:
    """Stop the server and everything it started; False if none ran."""
    server = running_server(state_dir)
    if server is not None:
        end_process(server.pid, grace_seconds=STOP_GRACE_SECONDS + 10, started_at=server.started_at)
    server_file(state_dir).unlink(missing_ok=True)
    return server is not None


def api_token(server: AirflowServer, state_dir: Path) -> str:
    """Return a bearer token of the administrator for the REST API."""
    reply = httpx.post(
        f"{server.url}/auth/token",
        json={"username": server.user, "password": admin_password(state_dir)},
        timeout=20,
    )
    reply.raise_for_status()
    return str(reply.json()["access_token"])


def _refuse_taken_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise NotReady(
                f"port {port} for Airflow's web UI is taken ({error.strerror}); "
                "stop that server or choose another with --port"
            ) from error


def _wait_ready(
    server: AirflowServer,
    state_dir: Path,
    supervisor: subprocess.Popen[bytes],
    log_path: Path,
    limit_seconds: float,
) -> None:
    give_up_at = time.monotonic() + limit_seconds
    pause, seen = threading.Event(), "no answer yet"
    while time.monotonic() < give_up_at:
        if supervisor.poll() is not None:
            seen = f"it ended with exit code {supervisor.returncode}"
            break
        try:
            token = api_token(server, state_dir)
            reply = httpx.get(
                f"{server.url}/api/v2/dags/scenario_run",
                headers={"Authorization": f"Bearer {token}"},
                timeout=10,
            )
            if reply.status_code == httpx.codes.OK:
                return
            seen = f"GET scenario_run gave {reply.status_code}"
        except (httpx.HTTPError, KeyError) as error:
            seen = f"{type(error).__name__}: {error}"
        pause.wait(0.5)
    tail = "\n".join(log_path.read_text(errors="replace").splitlines()[-20:])
    raise NotReady(
        f"Airflow was not ready within {limit_seconds:.0f} s ({seen}); its log ends:\n{tail}"
    )


def _serve(log_path: Path) -> int:
    """Run ``airflow standalone`` until it ends or SIGTERM arrives, then stop its process tree."""
    asked = StopSignal.caught((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    reaper = GroupReaper()
    with log_path.open("ab") as log:
        child = start_tied(airflow_command("standalone"), log=log, env=dict(os.environ))
    reaper.watch(child.pid)
    while not asked.wait(0.5):
        if child.poll() is not None:
            break
    family = _family(child.pid)
    for process in family:
        _signal(process, signal.SIGTERM)
    _gone, left = psutil.wait_procs(family, timeout=STOP_GRACE_SECONDS)
    for process in {*left, *_family(child.pid)}:
        _signal(process, signal.SIGKILL)
    child.wait(timeout=10)
    reaper.close()
    return 0 if asked.is_set() else 1


def _family(pid: int) -> list[psutil.Process]:
    """Return the process and all its descendants: Airflow's tasks lead their own sessions."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _signal(process: psutil.Process, signum: signal.Signals) -> None:
    try:
        process.send_signal(signum)
    except psutil.NoSuchProcess:
        return


def main() -> None:
    """Read the flags and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    sys.exit(_serve(parser.parse_args().log))


if __name__ == "__main__":
    main()
