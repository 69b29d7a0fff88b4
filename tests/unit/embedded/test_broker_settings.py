"""The broker's configuration holds what one small node needs."""

from __future__ import annotations

from pathlib import Path

from lagbench.embedded.broker_settings import (
    BrokerLayout,
    ProxiedListener,
    server_properties,
)


def test_only_loopback_is_listened_on(tmp_path: Path) -> None:
    """Every listener is bound to 127.0.0.1."""
    settings = _parsed(server_properties(BrokerLayout(tmp_path), port=9092, controller_port=9093))

    listeners = settings["listeners"].split(",") + settings["advertised.listeners"].split(",")
    assert all("://127.0.0.1:" in listener for listener in listeners)


def test_clients_behind_the_proxy_are_sent_back_to_the_proxy(tmp_path: Path) -> None:
    """The second listener is the broker's own port, and it advertises the proxy's."""
    proxied = ProxiedListener(port=9094, advertised_port=9095)
    layout = BrokerLayout(tmp_path)

    text = server_properties(layout, port=9092, controller_port=9093, proxied=proxied)
    settings = _parsed(text)

    assert "PROXIED://127.0.0.1:9094" in settings["listeners"].split(",")
    assert settings["advertised.listeners"].split(",") == [
        "PLAINTEXT://127.0.0.1:9092",
        "PROXIED://127.0.0.1:9095",
    ]
    assert "PROXIED:PLAINTEXT" in settings["listener.security.protocol.map"].split(",")
    assert proxied.bootstrap_servers == "127.0.0.1:9095"


def _parsed(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())
