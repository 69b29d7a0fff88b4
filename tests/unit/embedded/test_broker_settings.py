"""The broker's configuration holds what one small node needs."""

from __future__ import annotations

from pathlib import Path

from lagbench.embedded.broker_settings import BrokerLayout, logging_properties, server_properties


def test_only_loopback_is_listened_on(tmp_path: Path) -> None:
    """Every listener is bound to 127.0.0.1."""
    settings = _parsed(server_properties(BrokerLayout(tmp_path), port=9092, controller_port=9093))

    listeners = settings["listeners"].split(",") + settings["advertised.listeners"].split(",")
    assert all("://127.0.0.1:" in listener for listener in listeners)


def test_internal_topics_have_one_replica(tmp_path: Path) -> None:
    """A single node could never create a topic with three."""
    settings = _parsed(server_properties(BrokerLayout(tmp_path), port=9092, controller_port=9093))

    factors = {name: v for name, v in settings.items() if name.endswith("replication.factor")}
    assert len(factors) == 3
    assert set(factors.values()) == {"1"}


def test_broker_logs_into_its_folder_only(tmp_path: Path) -> None:
    """Nothing goes to the terminal, and the log is bounded."""
    text = logging_properties(BrokerLayout(tmp_path))

    assert "Console" not in text
    assert f"fileName={tmp_path / 'server.log'}" in text
    assert "size=10MB" in text


def _parsed(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())
