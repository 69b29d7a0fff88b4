"""Start, check and stop the embedded Airflow with its web UI."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import psutil

from lagbench.errors import NotReady
from lagbench.orchestrator.airflow_environment import (
    ADMIN,
    admin_password,
    airflow_environment,
    airflow_home,
    empty_temporary_folder,
    fail_abandoned_runs,
    prepare_database,
    write_configuration,
)
from lagbench.orchestrator.airflow_supervisor import STOP_GRACE_SECONDS, is_airflow
from localkube.processes import end_process, is_alive, kill_all, session_members

READY_LIMIT_SECONDS = 300
HEALTH_LIMIT_SECONDS = 60.0
"""A part that was started again reports within 20 s; Airflow misses a dead one after 30 s."""

_AUTH_MANAGER = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"


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


def log_file(state_dir: Path) -> Path:
    """Return the log of the server's parts."""
    return airflow_home(state_dir) / "server.log"


def running_server(state_dir: Path) -> AirflowServer | None:
    """Return the server of this state folder, None if none runs."""
    server = _recorded_server(state_dir)
    if server is None or not is_alive(server.pid, started_at=server.started_at):
        return None
    return server


def _recorded_server(state_dir: Path) -> AirflowServer | None:
    try:
        return AirflowServer(**json.loads(server_file(state_dir).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def start_server(
    state_dir: Path,
    connections: Mapping[str, str],
    *,
    port: int = 8080,
    target: str = "embedded",
    on_progress: Callable[[str], None] = lambda _: None,
) -> AirflowServer:
    """Start Airflow in the background and wait until the UI and the Dags answer."""
    running = running_server(state_dir)
    if running is not None:
        require_target(running, target)
        require_healthy(running, state_dir)
        return running
    stop_server(state_dir)
    _refuse_taken_port(port)
    prepare_database(state_dir)
    write_configuration(state_dir)
    fail_abandoned_runs(state_dir)
    empty_temporary_folder(state_dir)
    environment = airflow_environment(state_dir, connections)
    environment |= {
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        # The parts below are all that there is, and the log-in is by the password file.
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__AUTH_MANAGER": _AUTH_MANAGER,
        # Airflow asks here for served logs of running tasks. No other user can listen on port 1.
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": "1",
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": "1",
    }
    command = [sys.executable, "-m", "lagbench.orchestrator.airflow_supervisor"]
    with log_file(state_dir).open("wb") as log:
        supervisor = subprocess.Popen(
            [*command, "--log", str(log_file(state_dir))],
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
        _wait_ready(server, state_dir, supervisor)
    except BaseException:
        stop_server(state_dir)
        raise
    return server


def require_target(server: AirflowServer, target: str) -> None:
    """Reject a running Airflow whose Dags rehearse elsewhere."""
    if server.target != target:
        raise NotReady(
            f"the running Airflow rehearses on {server.target}, not on {target}; stop it first "
            "(make down), or give the same target"
        )


def failed_parts(server: AirflowServer) -> list[str]:
    """Return the parts of Airflow that do not work, as it reports or because it is silent."""
    try:
        reply = httpx.get(f"{server.url}/api/v2/monitor/health", timeout=10)
        found: dict[str, dict[str, str | None]] = reply.raise_for_status().json()
    except (httpx.HTTPError, ValueError):
        return ["api-server"]
    return [name for name, part in found.items() if part["status"] != "healthy"]


def require_healthy(
    server: AirflowServer, state_dir: Path, *, limit_seconds: float = HEALTH_LIMIT_SECONDS
) -> None:
    """Wait until every part of Airflow works: one that ended was started again."""
    give_up_at, pause = time.monotonic() + limit_seconds, threading.Event()
    while failed := failed_parts(server):
        if time.monotonic() > give_up_at:
            raise NotReady(told_failure(failed, state_dir))
        pause.wait(1.0)


def told_failure(failed: Iterable[str], state_dir: Path) -> str:
    """Return the message about parts that do not work."""
    return (
        f"a part of Airflow does not work: {', '.join(failed)}; its log: {log_file(state_dir)}. "
        "Restart Airflow: lagbench down, then lagbench ui"
    )


def stop_server(state_dir: Path) -> bool:
    """Stop the server and everything it started, also what outlived it; False if nothing ran."""
    server = _recorded_server(state_dir)
    if server is None:
        server_file(state_dir).unlink(missing_ok=True)
        return False
    was_running = is_alive(server.pid, started_at=server.started_at)
    end_process(server.pid, grace_seconds=STOP_GRACE_SECONDS + 10, started_at=server.started_at)
    left = _left_of(server)
    kill_all(left)
    server_file(state_dir).unlink(missing_ok=True)
    return was_running or bool(left)


def _left_of(server: AirflowServer) -> list[psutil.Process]:
    """Return what an ended server has left in its session.

    A later program may lead a session of the same number: there is no Airflow in that. Airflow's
    processes are known by their titles only, which hide their environment.
    """
    left, is_left = session_members(server.pid), False
    for process in left:
        with contextlib.suppress(psutil.Error):
            is_young = process.create_time() >= server.started_at
            is_left |= is_young and is_airflow(process.cmdline())
    return left if is_left else []


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
    server: AirflowServer, state_dir: Path, supervisor: subprocess.Popen[bytes]
) -> None:
    give_up_at = time.monotonic() + READY_LIMIT_SECONDS
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
            failed = failed_parts(server)
            if reply.status_code == httpx.codes.OK and not failed:
                return
            seen = f"GET scenario_run gave {reply.status_code}, not ready: {', '.join(failed)}"
        except (httpx.HTTPError, KeyError) as error:
            seen = f"{type(error).__name__}: {error}"
        pause.wait(0.5)
    tail = "\n".join(log_file(state_dir).read_text(errors="replace").splitlines()[-20:])
    raise NotReady(
        f"Airflow was not ready within {READY_LIMIT_SECONDS} s ({seen}); its log ends:\n{tail}"
    )
