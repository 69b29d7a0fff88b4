"""Carry connections between clients and the broker, under the fault in force."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Self

from lagbench.errors import NotReady
from lagbench.programs.tcp_proxy.orders import LOOPBACK, Fault, ProxyOrder, ProxyState

log = logging.getLogger(__name__)
_LINGER_FOR_RESET = struct.pack("ii", 1, 0)  # closing sends RST instead of FIN
_BACKLOG = 1024


class Proxy:
    """Listens on a loopback port; each connection there gets one to the broker.

    Every order applies to all connections at once, those that come later too.
    """

    def __init__(self, *, listen_port: int, upstream_port: int) -> None:
        """Carry connections from ``listen_port`` (0: a free one) to ``upstream_port``."""
        self.port, self.upstream_port = listen_port, upstream_port
        self.fault = Fault()
        self.passed_bytes: Counter[str] = Counter()
        self.reset_connections = 0
        self.connections: set[_Connection] = set()
        self._since = time.time_ns()
        self._undo: asyncio.TimerHandle | None = None
        self._server: asyncio.Server | None = None
        self.no_connection = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Listen."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _Side("to_broker", lambda client: _Connection(self, client)),
                LOOPBACK,
                self.port,
                backlog=_BACKLOG,
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
            reset_connections=self.reset_connections,
            to_broker_bytes=self.passed_bytes["to_broker"],
            to_clients_bytes=self.passed_bytes["to_client"],
        )

    async def emptied(self, timeout_seconds: float) -> bool:
        """Let everything pass and wait until no connection is left; False: some are left then."""
        self.obey(ProxyOrder(mode="pass"))
        if not self.connections:
            self.no_connection.set()
        try:
            await asyncio.wait_for(self.no_connection.wait(), timeout_seconds)
        except TimeoutError:
            return False
        return True

    def forget(self, connection: _Connection) -> None:
        """Take a connection out that has ended."""
        self.connections.discard(connection)
        if not self.connections:
            self.no_connection.set()

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
        self._proxy = proxy
        self._sides = {"to_broker": client}
        """The sources of the ways; the broker's is there once it is connected."""
        self.ways = {"to_broker": self._way("to_broker")}
        self._opening: asyncio.Task[None] | None = None
        proxy.connections.add(self)
        proxy.no_connection.clear()
        self.disturb(proxy.fault)

    def _way(self, name: str) -> Way:
        def count(passed: int) -> None:
            self._proxy.passed_bytes[name] += passed

        return Way(self._sides[name], count)

    @property
    def to_broker(self) -> Way:
        """The way from the client, which is there from the start."""
        return self.ways["to_broker"]

    def disturb(self, fault: Fault) -> None:
        """Put a fault in force; a held connection that has no counterpart yet gets one after it."""
        if fault.mode == "reset":
            self._reset()
            return
        for way in self.ways.values():
            way.disturb(fault)
        if self._opening is None and not fault.is_holding:
            self._opening = asyncio.get_running_loop().create_task(self._open())

    def close(self) -> None:
        """End both sides."""
        self._proxy.forget(self)
        if self._opening is not None:
            self._opening.cancel()
        for transport in self._sides.values():
            transport.close()

    def source_ended(self, name: str) -> None:
        """Pass an end on; without a counterpart there is nothing left."""
        if name in self.ways:
            self.ways[name].end()
        if len(self._sides) == 1:
            self.close()

    def side_lost(self) -> None:
        """Forget the connection once both sides have ended."""
        if all(side.is_closing() for side in self._sides.values()):
            self._proxy.forget(self)

    def _broker_opened(self, broker: asyncio.Transport) -> _Connection:
        """Let bytes flow both ways, under the fault that is in force by now."""
        if self not in self._proxy.connections:  # reset or closed meanwhile
            broker.abort()
            return self
        self._sides["to_client"] = broker
        self.ways["to_client"] = self._way("to_client")
        self.ways["to_client"].disturb(self._proxy.fault)
        self.ways["to_client"].open(self._sides["to_broker"])
        self.to_broker.open(broker)
        return self

    async def _open(self) -> None:
        loop, port = asyncio.get_running_loop(), self._proxy.upstream_port
        try:
            await loop.create_connection(
                lambda: _Side("to_client", self._broker_opened), LOOPBACK, port
            )
        except OSError as error:  # the broker is down: the client learns it by a closed connection
            log.info("no connection to the broker: %s", error)
            self.close()

    def _reset(self) -> None:
        self._proxy.reset_connections += 1
        self._proxy.forget(self)
        if self._opening is not None:
            self._opening.cancel()
        for way in self.ways.values():
            way.drop()
        for transport in self._sides.values():
            with contextlib.suppress(OSError):  # the other side was faster
                found = transport.get_extra_info("socket")
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_FOR_RESET)
            transport.abort()


class _Side(asyncio.Protocol):
    """The proxy's end of a client's connection, or of its counterpart."""

    def __init__(self, way: str, connect: Callable[[asyncio.Transport], _Connection]) -> None:
        """Be the source of ``way``."""
        self._way, self._connect = way, connect
        self._back = "to_client" if way == "to_broker" else "to_broker"
        self._connection: _Connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - asyncio's type is wider
        self._connection = self._connect(transport)

    def data_received(self, data: bytes) -> None:
        if self._way in self._connection.ways:
            self._connection.ways[self._way].take(data)

    def eof_received(self) -> bool:
        self._connection.source_ended(self._way)
        return True  # the connection closes when the end has been passed on

    def pause_writing(self) -> None:
        if self._back in self._connection.ways:
            self._connection.ways[self._back].target_is_full(True)

    def resume_writing(self) -> None:
        if self._back in self._connection.ways:
            self._connection.ways[self._back].target_is_full(False)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._connection.source_ended(self._way)
        self._connection.side_lost()


MOST_WAITING_BYTES = 16 * 1024 * 1024
"""The source is not read while more than this waits for its time."""
_Chunk = tuple[float, bytes | None]
"""When it is due, by the loop's clock; None instead of bytes: the source has ended."""


class Way:
    """Passes bytes from a source to a target; the end of the source ends the target."""

    def __init__(self, source: asyncio.Transport, count: Callable[[int], None]) -> None:
        """Wait for ``open``; ``count(bytes)`` is called for what is passed on."""
        self._loop = asyncio.get_running_loop()
        self._source, self._count = source, count
        self._target: asyncio.Transport | None = None
        self._fault = Fault()
        self._waiting: deque[_Chunk] = deque()
        self.waiting_bytes = 0
        """Taken from the source and not yet passed on."""
        self._last_due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_target_full = self._has_ended = self._is_paused = False
        self._look()

    def open(self, target: asyncio.Transport) -> None:
        """Pass bytes on to ``target`` from now on."""
        self._target = target
        self._look()

    def disturb(self, fault: Fault) -> None:
        """Put a fault in force, also for the bytes that wait; their order stays."""
        was_holding, self._fault = self._fault.is_holding, fault
        if was_holding and not fault.is_holding:
            due = self._loop.time() + fault.latency_seconds
            self._waiting = deque((due, chunk) for _, chunk in self._waiting)
            self._last_due = due
        self._look()

    def take(self, chunk: bytes) -> None:
        """Take bytes from the source."""
        self._push(chunk)

    def end(self) -> None:
        """Take the end of the source; what it sent before is passed on first."""
        if not self._has_ended:
            self._has_ended = True
            self._push(None)

    def target_is_full(self, is_full: bool) -> None:
        """Read the source no faster than the target takes."""
        self._is_target_full = is_full
        self._look()

    def drop(self) -> None:
        """Forget what waits: the connection was reset."""
        self._has_ended = True
        self._waiting.clear()
        self.waiting_bytes = 0
        if self._timer is not None:
            self._timer.cancel()

    def _push(self, chunk: bytes | None) -> None:
        fault, target = self._fault, self._target
        is_direct = not (self._waiting or fault.is_holding or fault.latency_seconds)
        if is_direct and target is not None:
            self._pass_on(target, chunk)
            return
        self._last_due = max(self._last_due, self._loop.time() + fault.latency_seconds)
        self._waiting.append((self._last_due, chunk))
        self.waiting_bytes += len(chunk or b"")
        self._look()

    def _look(self) -> None:
        """Pass on what is due, set the timer for the rest, and pause or resume the source."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        target = self._target
        if target is not None and not self._fault.is_holding:
            while self._waiting and self._waiting[0][0] <= self._loop.time():
                _, chunk = self._waiting.popleft()
                self.waiting_bytes -= len(chunk or b"")
                self._pass_on(target, chunk)
            if self._waiting:
                self._timer = self._loop.call_at(self._waiting[0][0], self._look)
        self._pace(
            pauses=target is None
            or self._fault.is_holding
            or self._is_target_full
            or self.waiting_bytes > MOST_WAITING_BYTES
        )

    def _pass_on(self, target: asyncio.Transport, chunk: bytes | None) -> None:
        if chunk is None:
            target.close()  # what it was given before still goes out
        elif not target.is_closing():
            target.write(chunk)
            self._count(len(chunk))

    def _pace(self, *, pauses: bool) -> None:
        if pauses == self._is_paused or self._source.is_closing():
            return
        self._is_paused = pauses
        if pauses:
            self._source.pause_reading()
        else:
            self._source.resume_reading()
