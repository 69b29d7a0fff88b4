"""The proxy carries bytes unchanged and disturbs all connections as it was ordered to."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from lagbench.errors import NotReady
from lagbench.programs.tcp_proxy.orders import (
    ProxyOrder,
    ProxyState,
    answer_to,
    order_proxy,
    orders_taken,
)
from lagbench.programs.tcp_proxy.proxy import Proxy

HOST = "127.0.0.1"
PATIENCE_SECONDS = 30.0


@dataclass
class Echo:
    """A server that returns what it gets."""

    port: int
    connected: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)


@dataclass
class Setting:
    """A proxy before an echo server."""

    proxy: Proxy
    echo: Echo

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect a client through the proxy."""
        return await asyncio.open_connection(HOST, self.proxy.port)


@asynccontextmanager
async def proxied_echo() -> AsyncIterator[Setting]:
    """Run both in this loop."""
    echo = Echo(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        echo.connected += 1
        echo.writers.append(writer)
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    echo.port = server.sockets[0].getsockname()[1]
    async with Proxy(listen_port=0, upstream_port=echo.port) as proxy:
        yield Setting(proxy, echo)
    for writer in echo.writers:
        writer.close()
    server.close()


def on_proxy(check: Callable[[Setting], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of a check, with a proxy of its own."""

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), proxied_echo() as setting:
            await check(setting)

    def test() -> None:
        asyncio.run(run())

    return test


async def until(condition: Callable[[], bool]) -> None:
    """Give the loop turns until the condition holds."""
    while not condition():  # noqa: ASYNC110 - the proxy has no event for it
        await asyncio.sleep(0.001)


@on_proxy
async def test_bytes_pass_unchanged_and_are_counted(setting: Setting) -> None:
    """Ten megabytes come back as they went, each way counted once."""
    sent = bytes(range(256)) * 40_000
    reader, writer = await setting.connect()

    async def send() -> None:
        writer.write(sent)
        await writer.drain()

    sending = asyncio.create_task(send())
    assert await reader.readexactly(len(sent)) == sent
    await sending
    state = setting.proxy.state
    assert (state.mode, state.connections) == ("pass", 1)
    assert state.to_broker_bytes == state.to_clients_bytes == len(sent)


@on_proxy
async def test_the_end_of_one_side_ends_the_other(setting: Setting) -> None:
    """A client that closes takes its counterpart along, and the proxy forgets both."""
    reader, writer = await setting.connect()
    writer.write(b"last words")
    assert await reader.readexactly(10) == b"last words"
    writer.close()
    await until(lambda: not setting.proxy.connections)

    reader, writer = await setting.connect()
    await until(lambda: len(setting.echo.writers) == 2)
    setting.echo.writers[1].close()
    assert await reader.read() == b""


@on_proxy
async def test_latency_is_added_each_way_and_keeps_the_order(setting: Setting) -> None:
    """A round trip takes at least twice the latency; what follows after it is over stays behind."""
    reader, writer = await setting.connect()
    setting.proxy.obey(ProxyOrder(mode="latency", latency_ms=60))
    loop = asyncio.get_running_loop()
    began = loop.time()
    writer.write(b"slow ")
    assert await reader.readexactly(5) == b"slow "
    assert loop.time() - began >= 0.12

    writer.write(b"first ")
    await until(lambda: setting.proxy.state.to_broker_bytes == 5 and _waits(setting))
    setting.proxy.obey(ProxyOrder(mode="pass"))
    writer.write(b"second")
    assert await reader.readexactly(12) == b"first second"


def _waits(setting: Setting) -> bool:
    (connection,) = setting.proxy.connections
    return connection.waiting_bytes > 0


@on_proxy
async def test_a_blackhole_keeps_connections_open_and_passes_nothing_until_it_ends(
    setting: Setting,
) -> None:
    """Old and new connections stay open without an answer, and afterwards all bytes arrive."""
    old_reader, old_writer = await setting.connect()
    old_writer.write(b"a")
    assert await old_reader.readexactly(1) == b"a"
    held = setting.proxy.obey(ProxyOrder(mode="blackhole"))

    new_reader, new_writer = await setting.connect()
    old_writer.write(b"old")
    new_writer.write(b"new")
    await until(lambda: len(setting.proxy.connections) == 2)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(old_reader.read(3)), 0.05)
    assert setting.proxy.state.to_broker_bytes == held.to_broker_bytes == 1
    assert setting.echo.connected == 1
    assert not new_reader.at_eof()

    setting.proxy.obey(ProxyOrder(mode="pass"))
    await until(lambda: setting.echo.connected == 2)
    assert await new_reader.readexactly(3) == b"new"
    assert setting.proxy.state.to_clients_bytes == 7


@on_proxy
async def test_a_reset_ends_connections_by_rst(setting: Setting) -> None:
    """Open connections and those that come later see ECONNRESET, the broker's side ends too."""
    reader, writer = await setting.connect()
    writer.write(b"a")
    assert await reader.readexactly(1) == b"a"

    state = setting.proxy.obey(ProxyOrder(mode="reset"))
    with pytest.raises(ConnectionResetError):
        await reader.read(1)
    assert (state.connections, state.reset_connections) == (0, 1)
    late_reader, _late = await setting.connect()
    with pytest.raises(ConnectionResetError):
        await late_reader.read(1)
    assert setting.echo.connected == 1

    setting.proxy.obey(ProxyOrder(mode="pass"))
    reader, writer = await setting.connect()
    writer.write(b"b")
    assert await reader.readexactly(1) == b"b"


@on_proxy
async def test_a_mode_with_seconds_ends_by_itself(setting: Setting) -> None:
    """Afterwards the mode is pass; the end of one disturbance does not cut the next one short."""
    begun = setting.proxy.obey(ProxyOrder(mode="blackhole", seconds=0.05))
    await until(lambda: setting.proxy.state.mode == "pass")
    assert setting.proxy.state.since - begun.since >= 40_000_000

    setting.proxy.obey(ProxyOrder(mode="blackhole", seconds=0.02))
    setting.proxy.obey(ProxyOrder(mode="latency", latency_ms=1))
    await asyncio.sleep(0.1)
    assert setting.proxy.state.mode == "latency"


def test_without_a_broker_a_client_is_turned_away() -> None:
    """The connection of a client ends when there is nothing behind the proxy."""

    async def run() -> None:
        server = await asyncio.start_server(lambda _r, _w: None, HOST, 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        async with asyncio.timeout(PATIENCE_SECONDS):
            async with Proxy(listen_port=0, upstream_port=port) as proxy:
                reader, _writer = await asyncio.open_connection(HOST, proxy.port)
                assert await reader.read() == b""

    asyncio.run(run())


@on_proxy
async def test_a_taken_port_is_named(setting: Setting) -> None:
    """The message has the port, which the broker advertises and nobody else may have."""
    taken = setting.echo.port
    with pytest.raises(NotReady, match=str(taken)):
        async with Proxy(listen_port=taken, upstream_port=1):
            pass


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


def test_the_client_gets_the_state_after_its_order() -> None:
    """Order and answer go over a socket; without a mode the order asks for the state.

    A proxy that is gone is named by its port.
    """

    async def run() -> ProxyState:
        async with orders_taken(0, obeyed) as port:
            order = ProxyOrder(mode="latency", latency_ms=40, seconds=2)
            return await asyncio.to_thread(order_proxy, port, order)

    state = asyncio.run(run())
    assert (state.mode, state.latency_ms, state.connections) == ("latency", 40, 3)
    assert json.loads(answer_to(b"{}", obeyed))["mode"] == "pass"
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(NotReady, match=f"port {port} "):
            order_proxy(port, ProxyOrder())
