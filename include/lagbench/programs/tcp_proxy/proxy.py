"""Carry connections between clients and the broker, under the fault in force."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import time
from dataclasses import dataclass
from typing import Self

from lagbench.errors import NotReady
from lagbench.programs.tcp_proxy.fault import Fault
from lagbench.programs.tcp_proxy.orders import LOOPBACK, ProxyOrder, ProxyState
from lagbench.programs.tcp_proxy.way import Way

log = logging.getLogger(__name__)

_LINGER_FOR_RESET = struct.pack("ii", 1, 0)  # closing sends RST instead of FIN
_BACKLOG = 1024


@dataclass(slots=True)
class _Counts:
    reset_connections: int = 0
    to_broker_bytes: int = 0
    to_clients_bytes: int = 0

    def add_to_broker(self, count: int) -> None:
        self.to_broker_bytes += count

    def add_to_clients(self, count: int) -> None:
        self.to_clients_bytes += count


class Proxy:
    """Listens on a loopback port; each connection there gets one to the broker.

    Every order applies to all connections at once, those that come later too.
    """

    def __init__(self, *, listen_port: int, upstream_port: int) -> None:
        """Carry connections from ``listen_port`` (0: a free one) to ``upstream_port``."""
        self.port, self.upstream_port = listen_port, upstream_port
        self.fault = Fault()
        self.counts = _Counts()
        self.connections: set[_Connection] = set()
        self._since = time.time_ns()
        self._undo: asyncio.TimerHandle | None = None
        self._server: asyncio.Server | None = None
        self._no_connection = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Listen."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _ClientSide(self), LOOPBACK, self.port, backlog=_BACKLOG
            )
        except OSError as error:
            raise NotReady(
                f"cannot listen on {LOOPBACK}:{self.port}: {error.strerror}; the broker "
                "names this port to its clients. End the process that has it, or restart the bench"
            ) from error
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.close()

    @property
    def state(self) -> ProxyState:
        """Return the mode in force and the counts."""
        return ProxyState(
            mode=self.fault.mode,
            latency_ms=self.fault.latency_seconds * 1000,
            since=self._since,
            connections=len(self.connections),
            reset_connections=self.counts.reset_connections,
            to_broker_bytes=self.counts.to_broker_bytes,
            to_clients_bytes=self.counts.to_clients_bytes,
        )

    async def emptied(self, timeout_seconds: float) -> bool:
        """Let everything pass and wait until no connection is left; False: some are left then."""
        self.obey(ProxyOrder(mode="pass"))
        if not self.connections:
            self._no_connection.set()
        try:
            await asyncio.wait_for(self._no_connection.wait(), timeout_seconds)
        except TimeoutError:
            return False
        return True

    def remember(self, connection: _Connection) -> None:
        """Take a new connection in."""
        self.connections.add(connection)
        self._no_connection.clear()

    def forget(self, connection: _Connection) -> None:
        """Take a connection out that has ended."""
        self.connections.discard(connection)
        if not self.connections:
            self._no_connection.set()

    def obey(self, order: ProxyOrder) -> ProxyState:
        """Put an order in force and return the state after it."""
        if order.mode is not None:
            if self._undo is not None:
                self._undo.cancel()
                self._undo = None
            self._disturb(Fault(order.mode, order.latency_ms / 1000))
            if order.seconds is not None:
                loop = asyncio.get_running_loop()
                self._undo = loop.call_later(order.seconds, self._disturb, Fault())
        return self.state

    def _disturb(self, fault: Fault) -> None:
        self.fault, self._since = fault, time.time_ns()
        log.info("mode %s for %d connections", fault.mode, len(self.connections))
        for connection in list(self.connections):
            connection.disturb(fault)


class _Connection:
    """A client's connection and its counterpart to the broker."""

    def __init__(self, proxy: Proxy, client: asyncio.Transport) -> None:
        self._proxy, self._client = proxy, client
        self._broker: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self.to_broker = Way(client, proxy.counts.add_to_broker)
        self.to_client: Way | None = None
        proxy.remember(self)
        self.disturb(proxy.fault)

    def disturb(self, fault: Fault) -> None:
        """Put a fault in force; a held connection that has no counterpart yet gets one after it."""
        if fault.is_resetting:
            self._reset()
            return
        self.to_broker.disturb(fault)
        if self.to_client is not None:
            self.to_client.disturb(fault)
        if self._opening is None and not fault.is_holding:
            self._opening = asyncio.get_running_loop().create_task(self._open())

    def close(self) -> None:
        """End both sides."""
        self._proxy.forget(self)
        if self._opening is not None:
            self._opening.cancel()
        for transport in (self._client, self._broker):
            if transport is not None:
                transport.close()

    def client_ended(self) -> None:
        """Pass the client's end on; without a counterpart there is nothing left."""
        self.to_broker.end()
        if self._broker is None:
            self.close()

    def broker_ended(self) -> None:
        """Pass the broker's end on."""
        if self.to_client is not None:
            self.to_client.end()

    def side_lost(self) -> None:
        """Forget the connection once both sides have ended."""
        sides = (self._client, self._broker)
        if all(side is None or side.is_closing() for side in sides):
            self._proxy.forget(self)

    def broker_opened(self, broker: asyncio.Transport) -> None:
        """Let bytes flow both ways, under the fault that is in force by now."""
        if self not in self._proxy.connections:  # reset or closed meanwhile
            broker.abort()
            return
        self._broker = broker
        self.to_client = Way(broker, self._proxy.counts.add_to_clients)
        self.to_client.disturb(self._proxy.fault)
        self.to_client.open(self._client)
        self.to_broker.open(broker)

    async def _open(self) -> None:
        loop, port = asyncio.get_running_loop(), self._proxy.upstream_port
        try:
            await loop.create_connection(lambda: _BrokerSide(self), LOOPBACK, port)
        except OSError as error:  # the broker is down: the client learns it by a closed connection
            log.info("no connection to the broker: %s", error)
            self.close()

    def _reset(self) -> None:
        self._proxy.counts.reset_connections += 1
        self._proxy.forget(self)
        if self._opening is not None:
            self._opening.cancel()
        for way in (self.to_broker, self.to_client):
            if way is not None:
                way.drop()
        for transport in (self._client, self._broker):
            if transport is not None:
                _send_reset(transport)


def _send_reset(transport: asyncio.Transport) -> None:
    found = transport.get_extra_info("socket")
    with contextlib.suppress(OSError):  # the other side was faster
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_FOR_RESET)
    transport.abort()


class _ClientSide(asyncio.Protocol):
    """The proxy's end of a client's connection."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._connection: _Connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - asyncio's type is wider
        self._connection = _Connection(self._proxy, transport)

    def data_received(self, data: bytes) -> None:
        self._connection.to_broker.take(data)

    def eof_received(self) -> bool:
        self._connection.client_ended()
        return True  # the connection closes when the end has been passed on

    def pause_writing(self) -> None:
        if self._connection.to_client is not None:
            self._connection.to_client.target_is_full(True)

    def resume_writing(self) -> None:
        if self._connection.to_client is not None:
            self._connection.to_client.target_is_full(False)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._connection.client_ended()
        self._connection.side_lost()


class _BrokerSide(asyncio.Protocol):
    """The proxy's end of the counterpart."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - asyncio's type is wider
        self._connection.broker_opened(transport)

    def data_received(self, data: bytes) -> None:
        if self._connection.to_client is not None:
            self._connection.to_client.take(data)

    def eof_received(self) -> bool:
        self._connection.broker_ended()
        return True

    def pause_writing(self) -> None:
        self._connection.to_broker.target_is_full(True)

    def resume_writing(self) -> None:
        self._connection.to_broker.target_is_full(False)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._connection.broker_ended()
        self._connection.side_lost()
