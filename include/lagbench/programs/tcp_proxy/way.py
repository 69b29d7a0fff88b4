"""One direction of a connection: bytes in the order of their arrival, late or held back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from lagbench.programs.tcp_proxy.orders import Fault

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
