"""A server that runs as a child of this process: its state, its end, its last words."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Literal

import psutil

from lagbench.errors import NotReady
from localkube.kube_objects import LocalkubeError
from localkube.ports import LOOPBACK, PortPool, is_free
from localkube.processes import end_process

PartState = Literal["running", "stopped", "died"]
_LOG_TAIL_LINES = 15


class ChildServer:
    """Base of the broker and of localkube."""

    what: str
    stop_grace_seconds: float

    def __init__(self, *logs: Path) -> None:
        """Keep the paths of the logs; nothing runs yet."""
        self._logs = logs
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id after the start."""
        return self._process.pid if self._process is not None else None

    def state(self) -> PartState:
        """Return whether it runs, was stopped, or ended by itself."""
        if self._process is None:
            return "stopped"
        return "running" if self._process.poll() is None else "died"

    def stop(self, *, grace_seconds: float | None = None) -> None:
        """Stop it (SIGTERM, then SIGKILL) and keep its files; no effect if it is stopped."""
        if self._process is None:
            return
        grace = self.stop_grace_seconds if grace_seconds is None else grace_seconds
        end_process(self._process.pid, grace_seconds=grace)
        self._process.wait(timeout=10)
        self._process = None

    def log_tail(self) -> str:
        """Return the last lines of its logs."""
        lines: list[str] = []
        for path in self._logs:
            if path.is_file():
                text = path.read_text(encoding="utf-8", errors="replace")
                lines += text.splitlines()[-_LOG_TAIL_LINES:]
        return "\n".join(f"  | {line}" for line in lines)

    def await_answer(self, problem: Callable[[], str], timeout_seconds: float) -> None:
        """Return when ``problem`` is empty."""
        if self._process is None:
            raise NotReady(f"{self.what} was not started")
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            seen = problem()
            if not seen:
                return
            try:  # the end of the process is the only event available: wait for it meanwhile
                code = self._process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            text = f"{self.what} ended with code {code} while starting"
            raise NotReady(f"{text}:\n{self.log_tail()}")
        raise NotReady(
            f"{self.what} did not answer within {timeout_seconds:.0f} s (last seen: {problem()}). "
            f"Its last output:\n{self.log_tail()}"
        )


def free_port(*, besides: Collection[int] = ()) -> int:
    """Return a free port below the kernel's range for outgoing connections, none of ``besides``."""
    try:
        return PortPool(besides).take()
    except LocalkubeError as error:
        raise NotReady(str(error)) from error


def accepts_connections(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a server listens on the port."""
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False


def require_free(port: int, purpose: str, host: str = LOOPBACK) -> None:
    """Raise NotReady if the port is taken; name its process if the system shows it."""
    if is_free(port, host):
        return
    message = (
        f"port {port} ({purpose}) is taken by {_owner(port)}; "
        "end that process, or choose another port"
    )
    raise NotReady(message)


def _owner(port: int) -> str:
    try:
        for connection in psutil.net_connections(kind="tcp"):
            listens = connection.status == psutil.CONN_LISTEN
            if listens and connection.laddr and connection.laddr[1] == port:
                if connection.pid is None:
                    break
                process = psutil.Process(connection.pid)
                return f"process {connection.pid} ({process.name()})"
    except psutil.Error:
        pass  # other users' processes are not visible to everybody
    return "a process that this user cannot see"
