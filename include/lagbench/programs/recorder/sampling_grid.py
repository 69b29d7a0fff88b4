"""Read one source on a fixed grid of instants, in a thread of its own.

A slow or failed read costs its own ticks and no others: every source has its own thread, and the
grid does not move. Ticks that passed during a slow read are reported as gaps.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Literal

from lagbench.core.telemetry import ReadGap, Record

log = logging.getLogger(__name__)

What = Literal["lag", "replicas", "hpa", "group", "pods", "usage", "broker", "events"]
Read = Callable[[int], Iterable[Record]]
"""Takes the instant (unix ns) and returns what was seen."""


class GridSampler(threading.Thread):
    """Sends what ``read`` returns, once per tick."""

    def __init__(
        self,
        what: What,
        read: Read,
        *,
        send: Callable[[Record], None],
        source: str,
        origin_at: int,
        interval_ns: int,
    ) -> None:
        """Tick at ``origin_at`` plus whole multiples of ``interval_ns``."""
        super().__init__(name=f"sample-{what}", daemon=True)
        self._what: What = what
        self._read = read
        self._send = send
        self._source = source
        self._origin_at = origin_at
        self._interval_ns = interval_ns
        self._stopping = threading.Event()
        self.has_read = False

    def run(self) -> None:
        """Sample until stopped."""
        tick_at = self._next_tick_at(time.time_ns())
        while not self._stopping.wait(max(tick_at - time.time_ns(), 0) / 1e9):
            began_at = time.time_ns()
            self.sample(began_at)
            ended_at = time.time_ns()
            tick_at += self._interval_ns
            while tick_at < ended_at:
                took_seconds = (ended_at - began_at) / 1e9
                self._gap(tick_at, f"the reading before took {took_seconds:.1f} s")
                tick_at += self._interval_ns

    def sample(self, at: int) -> None:
        """Read once; a failure is sent as a gap."""
        try:
            for record in self._read(at):
                self._send(record)
        except Exception as error:
            log.warning("%s was not read: %s", self._what, error)
            self._gap(at, str(error) or type(error).__name__)
        self.has_read = True

    def stop(self) -> None:
        """End after the reading under way."""
        self._stopping.set()

    def _gap(self, at: int, reason: str) -> None:
        self._send(ReadGap(at=at, source=self._source, what=self._what, reason=reason))

    def _next_tick_at(self, now: int) -> int:
        return now + (self._origin_at - now) % self._interval_ns
