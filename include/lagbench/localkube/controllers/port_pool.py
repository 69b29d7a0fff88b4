"""Allocate free loopback ports, each to one owner."""

from __future__ import annotations

import contextlib
import secrets
import socket
from pathlib import Path

from lagbench.errors import NotReady

_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 20_000


def _first_ephemeral() -> int:
    """Return the first port of the kernel's range for outgoing connections (default 32768)."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(_EPHEMERAL_RANGE.read_text().split()[0])
    return 32_768


class PortPool:
    """Ports below the ephemeral range, so that no outgoing connection takes an allocated one."""

    def __init__(self) -> None:
        """Start at a random port, so that two benches on one machine rarely try the same one."""
        highest = _first_ephemeral()
        lowest = _LOWEST if highest - _LOWEST >= 1_000 else 10_000
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
