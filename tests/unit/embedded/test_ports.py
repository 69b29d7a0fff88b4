"""Ports: free ones survive a restart, taken ones are named."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lagbench.embedded import ports
from lagbench.embedded.broker import Broker
from lagbench.errors import NotReady


def test_free_port_lies_below_the_ephemeral_range() -> None:
    """The kernel gives no outgoing connection a port that a stopped broker must find again."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    assert all(1024 < ports.free_port() < lowest for _ in range(20))


def test_free_port_leaves_out_what_is_promised_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that nobody listens on yet, but somebody will, is not given out."""
    drawn = iter([20_001, 20_001, 20_002])

    class Chooser:
        def randint(self, _low: int, _high: int) -> int:
            return next(drawn)

    monkeypatch.setattr(ports.random, "SystemRandom", Chooser)
    monkeypatch.setattr(ports, "is_free", lambda _port: True)

    assert ports.free_port(besides={20_001}) == 20_002


def test_taken_port_is_named_with_its_owner() -> None:
    """The message has the port and the process that listens on it."""
    with socket.socket() as server:
        server.bind((ports.LOOPBACK, 0))
        server.listen()
        port = server.getsockname()[1]

        assert not ports.is_free(port)
        assert ports.accepts_connections(port)
        with pytest.raises(NotReady, match=rf"port {port}.*process {os.getpid()}"):
            ports.require_free(port, "test")

    assert ports.is_free(port)
    assert not ports.accepts_connections(port)


def test_broker_refuses_a_taken_port(tmp_path: Path) -> None:
    """Nothing is written or started when the port belongs to somebody else."""
    with socket.socket() as server:
        server.bind((ports.LOOPBACK, 0))
        server.listen()
        broker = Broker(tmp_path / "broker", port=server.getsockname()[1])

        with pytest.raises(NotReady, match="Kafka broker"):
            broker.start()

    assert not (tmp_path / "broker").exists()


def test_broker_refuses_a_full_disk(tmp_path: Path) -> None:
    """Need and have are said before anything is started."""
    broker = Broker(tmp_path / "broker", free_bytes=lambda _: 1024**3)

    with pytest.raises(NotReady, match=r"2\.0 GiB.*1\.0 GiB"):
        broker.start()

    assert broker.state() == "stopped"
