"""Read a source on a fixed grid of instants, once a second.

A slow or failed read costs its own ticks and no others: every source has its own thread, and the
grid does not move. Ticks that passed during a slow read are reported as gaps. The grid is the
monotonic clock's, so that readings continue when the wall clock, which stamps them, is set. A
source that says that it is changing is also read between the ticks, five times a second.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from lagbench.adapters.kube.kube_client import reason_of
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import ReadGap, What

log = logging.getLogger(__name__)

Read = Callable[[int], Iterable[Record]]
"""Takes the instant (unix ns) and returns what was seen."""
CHANGING_NS = 200_000_000
"""The time between two readings of a source that is changing: five a second."""


class SourceThread(threading.Thread):
    """Reads a source of records until it is stopped."""

    def __init__(self, name: str, send: Callable[[Record], None], source: str) -> None:
        """Send records of ``source``."""
        super().__init__(name=name, daemon=True)
        self._send, self._source = send, source
        self._stopping = threading.Event()
        self.has_read = False

    def stop(self) -> None:
        """End after the reading under way."""
        self._stopping.set()

    def _report(self, kind: type[Record], at: int, **fields: Any) -> None:
        self._send(kind(at=at, source=self._source, **fields))


class GridSampler(SourceThread):
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
        is_changing: Callable[[], bool] = lambda: False,
    ) -> None:
        """Tick at ``origin_at`` (unix ns) plus whole multiples of ``interval_ns``.

        :param is_changing: whether the last reading is a reason to read again before the next tick.
        """
        super().__init__(f"sample-{what}", send, source)
        self._what, self._read, self._is_changing = what, read, is_changing
        self._origin_at, self._interval_ns = origin_at, interval_ns

    def run(self) -> None:
        """Sample until stopped."""
        until_tick_ns = (self._origin_at - time.time_ns()) % self._interval_ns
        due_ns = tick_ns = time.monotonic_ns() + until_tick_ns
        while not self._stopping.wait(max(due_ns - time.monotonic_ns(), 0) / 1e9):
            began_ns = time.monotonic_ns()
            self.sample(time.time_ns())
            ended_ns, ended_at = time.monotonic_ns(), time.time_ns()
            if due_ns == tick_ns:
                tick_ns += self._interval_ns
            while tick_ns < ended_ns:
                took_seconds = (ended_ns - began_ns) / 1e9
                reason = f"the previous reading took {took_seconds:.1f} s"
                self._gap(ended_at - (ended_ns - tick_ns), reason)
                tick_ns += self._interval_ns
            due_ns = self._due_ns(tick_ns, ended_ns)

    def sample(self, at: int) -> None:
        """Read once; a failure is sent as a gap."""
        try:
            for record in self._read(at):
                self._send(record)
        except Exception as error:
            log.warning("%s was not read: %s", self._what, error)
            self._gap(at, reason_of(error))
        self.has_read = True

    def _due_ns(self, tick_ns: int, now_ns: int) -> int:
        """Return the next reading: the tick, or one of the whole steps that lead up to it."""
        if not self._is_changing():
            return tick_ns
        return tick_ns - max(tick_ns - now_ns - 1, 0) // CHANGING_NS * CHANGING_NS

    def _gap(self, at: int, reason: str) -> None:
        self._report(ReadGap, at, what=self._what, reason=reason)
