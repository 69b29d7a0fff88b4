"""Find free loopback ports for servers, below the range of outgoing connections.

A server that restarts must find its port free again. A client that retries a closed port of the
kernel's ephemeral range can get that same port as its own and connect to itself.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Collection
from pathlib import Path

from localkube.kube_objects import LocalkubeError

LOOPBACK = "127.0.0.1"


class PortPool:
    """Hands out ports, each to one owner.

    It starts at a random port, so that two of them on one machine rarely try the same one.
    """

    def __init__(self, taken: Collection[int] = ()) -> None:
        """Choose the range; the ports ``taken`` are in use already."""
        highest = 32_768  # Linux's default
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
            highest = int(text.split()[0])
        lowest = 20_000 if highest >= 21_000 else 10_000
        self._candidates = range(lowest, max(highest, lowest + 1_000))
        self._next = secrets.randbelow(len(self._candidates))
        self._taken = set(taken)

    def take(self) -> int:
        """Return a port that has no listener and no other owner."""
        for _ in self._candidates:
            self._next = (self._next + 1) % len(self._candidates)
            port = self._candidates[self._next]
            if port not in self._taken and is_free(port):
                self._taken.add(port)
                return port
        raise LocalkubeError(
            f"no free loopback port between {self._candidates[0]} and {self._candidates[-1]} "
            f"({len(self._taken)} are kept for others); see `ss -ltn`"
        )

    def give_back(self, port: int) -> None:
        """Release a port."""
        self._taken.discard(port)


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket() as probe:
        # As the servers do: connections that linger after a stop do not block a restart.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
