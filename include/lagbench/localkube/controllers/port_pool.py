"""Allocate free loopback ports, each to one owner."""

from __future__ import annotations

import contextlib
import secrets
import socket
from pathlib import Path

from lagbench.errors import NotReady


class PortPool:
    """Ports below the kernel's ephemeral range: no outgoing connection takes an allocated one.

    It starts at a random port, so that two benches on one machine rarely try the same one.
    """

    def __init__(self) -> None:
        """Choose the range."""
        highest = 32_768  # Linux's default
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
            highest = int(text.split()[0])
        lowest = 20_000 if highest >= 21_000 else 10_000
        self._candidates = range(lowest, max(highest, lowest + 1_000))
        self._next = secrets.randbelow(len(self._candidates))
        self._taken: set[int] = set()

    def take(self) -> int:
        """Return a port that has no listener and no other owner."""
        for _ in self._candidates:
            self._next = (self._next + 1) % len(self._candidates)
            port = self._candidates[self._next]
            if port not in self._taken and _is_free(port):
                self._taken.add(port)
                return port
        raise NotReady(
            f"no free loopback port between {self._candidates[0]} and {self._candidates[-1]}: "
            f"{len(self._taken)} belong to pods, the others are in use"
        )

    def give_back(self, port: int) -> None:
        """Release a port."""
        self._taken.discard(port)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
