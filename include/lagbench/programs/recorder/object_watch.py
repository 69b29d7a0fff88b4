"""Follow the objects of one kind: a list, then every change, through breaks of the watch."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from lagbench.adapters.kube.client.kube_errors import reason_of
from lagbench.adapters.kube.client.object_events import Event
from lagbench.core.telemetry.record import Record
from lagbench.core.telemetry.recorder import ReadGap, What
from lagbench.programs.recorder.sampling_grid import SourceThread

log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_GAP_EVERY_NS = 1_000_000_000


class ObjectWatch(SourceThread):
    """Takes one list and its changes after the other until stopped.

    A server ends a watch in order after half a minute. One that breaks instead may have been dead
    since its last event: a partition shows no sooner than the read times out, 35 s later.
    """

    def __init__(
        self,
        what: What,
        events: Callable[[], Iterator[Event]],
        send: Callable[[Record], None],
        source: str,
        *,
        is_sampled: bool = False,
    ) -> None:
        """Take one list and its changes from each call of ``events``.

        ``is_sampled``: a sampler reads the same objects and reports its own gaps, so a change that
        this watch missed is observed anyway, if later and without its author.
        """
        super().__init__(f"watch-{what}", send, source)
        self._what, self._events, self._is_sampled = what, events, is_sampled

    def run(self) -> None:
        """Follow; a watch that breaks is a gap, then a new list says what was missed."""
        while not self._stopping.is_set():
            seen_at = time.time_ns()
            try:
                for kind, found in self._events():
                    if kind == "ERROR":  # 410, its version is too old: the next list says all
                        log.info("watch ended: %s", found.get("message"))
                    self.take(kind, found, at=time.time_ns())
                    self.has_read = True
                    if self._stopping.is_set():
                        return
                    seen_at = time.time_ns()
            except Exception as error:
                log.warning("%s were not read: %s", self._what, error)
                self._send_gaps(seen_at, reason_of(error))
                self.has_read = True
                self._stopping.wait(_RETRY_SECONDS)

    def _send_gaps(self, seen_at: int, reason: str) -> None:
        """Send a gap now, and one a second back to ``seen_at``, the last sign of life."""
        now = time.time_ns()
        missed = () if self._is_sampled else range(seen_at, now, _GAP_EVERY_NS)
        for at in (*missed, now):
            self._report(ReadGap, at, what=self._what, reason=reason)

    @abstractmethod
    def take(self, kind: str, found: Mapping[str, Any], *, at: int) -> None:
        """Take one event of the watch."""


def present(kind: str, found: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Return the objects that an event shows as being there."""
    if kind == "LISTED":
        return list(found.get("items") or [])
    return [found] if kind in {"ADDED", "MODIFIED"} else []
