"""Find free ports for servers, by default on loopback, and name the owner of a taken port."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection
from pathlib import Path

import psutil

from lagbench.errors import NotReady

LOOPBACK = "127.0.0.1"
_LOWEST_PORT = 20_000
_TRIES = 200
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port(*, besides: Collection[int] = ()) -> int:
    """Return a free port below the kernel's range for outgoing connections, none of ``besides``.

    A server that restarts must find its port free again. A client that retries a closed port of the
    ephemeral range can get that same port as its own and connect to itself.
    """
    highest = _lowest_ephemeral_port() - 1
    chooser = random.SystemRandom()
    for _ in range(_TRIES):
        port = chooser.randint(min(_LOWEST_PORT, highest - 1000), highest)
        if port not in besides and is_free(port):
            return port
    message = f"no free loopback port below {highest} in {_TRIES} tries; see `ss -ltn`"
    raise NotReady(message)


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: connections that linger after a stop do not block a restart.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


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


def _lowest_ephemeral_port() -> int:
    try:
        return int(_EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768  # Linux's default
