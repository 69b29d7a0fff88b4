"""An order is one line of JSON; what is none is answered with the reason."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

from lagbench.errors import NotReady
from lagbench.programs.tcp_proxy.control import answer_to, orders_taken
from lagbench.programs.tcp_proxy.orders import ProxyOrder, ProxyState
from lagbench.programs.tcp_proxy.proxy_client import order_proxy


def obeyed(order: ProxyOrder) -> ProxyState:
    """Answer as a proxy that does at once what it is told."""
    return ProxyState(
        mode=order.mode or "pass",
        latency_ms=order.latency_ms,
        since=7,
        connections=3,
        reset_connections=0,
        to_broker_bytes=1,
        to_clients_bytes=2,
    )


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (b"nonsense", "order"),
        (b'{"mode": "netem"}', "mode"),
        (b'{"mode": "latency"}', "latency_ms"),
        (b'{"mode": "reset", "latency_ms": 5}', "latency_ms"),
        (b'{"mode": "latency", "latency_ms": 60001}', "latency_ms"),
        (b'{"mode": "blackhole", "seconds": 0}', "seconds"),
        (b'{"mode": "pass", "seconds": 3}', "seconds"),
        (b'{"seconds": 3}', "seconds"),
        (b'{"mode": "pass", "jitter": 1}', "jitter"),
    ],
)
def test_what_is_no_order_is_refused_by_its_field(line: bytes, field: str) -> None:
    """The answer names the field; nothing is obeyed."""

    def never(_order: ProxyOrder) -> ProxyState:
        raise AssertionError

    assert field in json.loads(answer_to(line, never))["error"]


def test_an_order_without_a_mode_changes_nothing() -> None:
    """It asks for the state."""
    assert json.loads(answer_to(b"{}", obeyed))["mode"] == "pass"


def test_the_client_gets_the_state_after_its_order() -> None:
    """Order and answer go over a socket."""

    async def run() -> ProxyState:
        async with orders_taken(0, obeyed) as port:
            order = ProxyOrder(mode="latency", latency_ms=40, seconds=2)
            return await asyncio.to_thread(order_proxy, port, order)

    state = asyncio.run(run())
    assert (state.mode, state.latency_ms, state.connections) == ("latency", 40, 3)


def test_a_proxy_that_is_gone_is_not_ready() -> None:
    """The message names the port."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(NotReady, match=f"port {port} "):
            order_proxy(port, ProxyOrder())
