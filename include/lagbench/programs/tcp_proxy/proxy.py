"""Carry connections between clients and the broker, under the fault in force."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import time
from collections import Counter, deque
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
        self.connections: set[_Side] = set()
        self._since = time.time_ns()
        self._undo: asyncio.TimerHandle | None = None
        self._server: asyncio.Server | None = None
        self.no_connection = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Listen."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _Side(self), LOOPBACK, self.port, backlog=_BACKLOG
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

    def forget(self, connection: _Side) -> None:
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


MOST_WAITING_BYTES = 16 * 1024 * 1024
"""The source is not read while more than this waits for its time."""

_Chunk = tuple[float, bytes | None]
"""When it is due, by the loop's clock; None instead of bytes: the source has ended."""


class _Side(asyncio.Protocol):
    """One end of a connection: takes its bytes and passes them on to the other end.

    A client's side opens its counterpart to the broker; while it is held it has none.
    """

    def __init__(self, proxy: Proxy, client: _Side | None = None) -> None:
        """Be a client's side, or the counterpart of ``client``."""
        self._proxy, self._loop = proxy, asyncio.get_running_loop()
        self.client = client or self
        self._counter = "to_broker" if client is None else "to_client"
        self.other = client
        self.transport: asyncio.Transport
        self._opening: asyncio.Task[None] | None = None
        self._fault = Fault()
        self._waiting: deque[_Chunk] = deque()
        self.waiting_bytes = 0
        """Taken from this end and not yet passed on."""
        self._last_due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_target_full = self._has_ended = self._is_paused = False

    # --- what asyncio calls -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - asyncio's type is wider
        self.transport = transport
        if self.client is self:
            self._proxy.connections.add(self)
            self._proxy.no_connection.clear()
            self.disturb(self._proxy.fault)
        elif self.client not in self._proxy.connections:  # reset or closed meanwhile
            transport.abort()
        else:
            self.client.other = self
            self._take_fault(self._proxy.fault)
            self.client._look()  # noqa: SLF001 - the other end

    def data_received(self, data: bytes) -> None:
        self._push(data)

    def eof_received(self) -> bool:
        self._end()
        return True  # the connection closes when the end has been passed on

    def pause_writing(self) -> None:
        self._source_is_too_fast(True)

    def resume_writing(self) -> None:
        self._source_is_too_fast(False)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._end()
        if all(side.transport.is_closing() for side in self._sides):
            self._proxy.forget(self.client)

    # --- what the proxy calls, of a client's side --------------------------------------------

    def disturb(self, fault: Fault) -> None:
        """Put a fault in force; a held connection that has no counterpart yet gets one after it."""
        if fault.mode == "reset":
            self._reset()
            return
        for side in self._sides:
            side._take_fault(fault)  # noqa: SLF001 - the other end
        if self._opening is None and not fault.is_holding:
            self._opening = self._loop.create_task(self._open())

    def close(self) -> None:
        """End both sides."""
        self._proxy.forget(self)
        if self._opening is not None:
            self._opening.cancel()
        for side in self._sides:
            side.transport.close()

    @property
    def _sides(self) -> list[_Side]:
        return [self] if self.other is None else [self, self.other]

    async def _open(self) -> None:
        port = self._proxy.upstream_port
        try:
            await self._loop.create_connection(lambda: _Side(self._proxy, self), LOOPBACK, port)
        except OSError as error:  # the broker is down: the client learns it by a closed connection
            log.info("no connection to the broker: %s", error)
            self.close()

    def _reset(self) -> None:
        self._proxy.reset_connections += 1
        self._proxy.forget(self)
        if self._opening is not None:
            self._opening.cancel()
        for side in self._sides:
            side._drop()  # noqa: SLF001 - the other end
            with contextlib.suppress(OSError):  # the other side was faster
                found = side.transport.get_extra_info("socket")
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_FOR_RESET)
            side.transport.abort()

    # --- the way from this end to the other --------------------------------------------------

    def _take_fault(self, fault: Fault) -> None:
        """Put a fault in force, also for the bytes that wait; their order stays."""
        was_holding, self._fault = self._fault.is_holding, fault
        if was_holding and not fault.is_holding:
            due = self._loop.time() + fault.latency_seconds
            self._waiting = deque((due, chunk) for _, chunk in self._waiting)
            self._last_due = due
        self._look()

    def _end(self) -> None:
        """Take the end of this side; what it sent before is passed on first."""
        if not self._has_ended:
            self._has_ended = True
            self._push(None)
        if self.other is None:  # without a counterpart there is nothing left
            self.close()

    def _source_is_too_fast(self, is_full: bool) -> None:
        """Read the other end no faster than this one takes."""
        if self.other is not None:
            self.other._is_target_full = is_full  # noqa: SLF001 - the other end
            self.other._look()  # noqa: SLF001

    def _drop(self) -> None:
        """Forget what waits: the connection was reset."""
        self._has_ended = True
        self._waiting.clear()
        self.waiting_bytes = 0
        if self._timer is not None:
            self._timer.cancel()

    def _push(self, chunk: bytes | None) -> None:
        fault, is_direct = self._fault, not self._waiting and self.other is not None
        if is_direct and not fault.is_holding and not fault.latency_seconds:
            self._pass_on(chunk)
            return
        self._last_due = max(self._last_due, self._loop.time() + fault.latency_seconds)
        self._waiting.append((self._last_due, chunk))
        self.waiting_bytes += len(chunk or b"")
        self._look()

    def _look(self) -> None:
        """Pass on what is due, set the timer for the rest, and pause or resume reading."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        is_held = self.other is None or self._fault.is_holding
        if not is_held:
            while self._waiting and self._waiting[0][0] <= self._loop.time():
                _, chunk = self._waiting.popleft()
                self.waiting_bytes -= len(chunk or b"")
                self._pass_on(chunk)
            if self._waiting:
                self._timer = self._loop.call_at(self._waiting[0][0], self._look)
        pauses = is_held or self._is_target_full or self.waiting_bytes > MOST_WAITING_BYTES
        if pauses != self._is_paused and not self.transport.is_closing():
            self._is_paused = pauses
            (self.transport.pause_reading if pauses else self.transport.resume_reading)()

    def _pass_on(self, chunk: bytes | None) -> None:
        target = self.other.transport if self.other is not None else self.transport
        if chunk is None:
            target.close()  # what it was given before still goes out
        elif not target.is_closing():
            target.write(chunk)
            self._proxy.passed_bytes[self._counter] += len(chunk)
