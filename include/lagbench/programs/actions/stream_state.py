"""Know where the run's stream is: its start and its states, from the run's telemetry."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lagbench.core.kubernetes.instants import NS_PER_SECOND
from lagbench.core.scenario.actions import ActionBase
from lagbench.core.telemetry.producer import StreamStarted
from lagbench.core.telemetry.record import Record
from lagbench.core.telemetry.recorder import LagSample

_LOOK_SECONDS = 1.0


class StreamState:
    """The start of the stream, and the instant at which it first was in each state."""

    def __init__(
        self, now_ns: Callable[[], int], *, drained_records: int, drained_after_seconds: float
    ) -> None:
        """Begin without a stream; lag is drained at ``drained_records``, not before that second."""
        self._now_ns = now_ns
        self._drained_records = drained_records
        self._drained_after_ns = round(drained_after_seconds * NS_PER_SECOND)
        self._started_at: int | None = None
        self._drained_at: int | None = None
        self._changed = threading.Condition()

    def take(self, record: Record) -> None:
        """Learn from one record of the run's telemetry."""
        with self._changed:
            if isinstance(record, StreamStarted):
                self._started_at = record.stream_started_at
            elif isinstance(record, LagSample) and self._drained_at is None:
                if self._is_drained(record):
                    self._drained_at = record.at
            else:
                return
            self._changed.notify_all()

    def wake(self) -> None:
        """Let every wait look again, for a program that ends."""
        with self._changed:
            self._changed.notify_all()

    def planned_at(self, action: ActionBase) -> int | None:
        """Return the planned instant of an action; None: it waits for a state, or the stream."""
        if action.at_seconds is None or self._started_at is None:
            return None
        return self._started_at + round(action.at_seconds * NS_PER_SECOND)

    def await_begin(self, action: ActionBase, stopping: threading.Event) -> bool:
        """Wait until the action is due; False: the program ends before."""
        with self._changed:
            while not stopping.is_set():
                left_seconds = self.left_seconds(action)
                if left_seconds is not None and left_seconds <= 0:
                    return True
                self._changed.wait(min(left_seconds or _LOOK_SECONDS, _LOOK_SECONDS))
        return False

    def left_seconds(self, action: ActionBase) -> float | None:
        """Return the seconds until the action is due, 0 or less: it is; None: not known yet."""
        if action.at is not None:
            return None if self._drained_at is None else 0.0
        planned_at = self.planned_at(action)
        return None if planned_at is None else (planned_at - self._now_ns()) / NS_PER_SECOND

    def _is_drained(self, sample: LagSample) -> bool:
        started_at = self._started_at
        if started_at is None or sample.at < started_at + self._drained_after_ns:
            return False
        if any(end and committed is None for _, end, committed in sample.partitions):
            return False
        lags = (max(end - (committed or 0), 0) for _, end, committed in sample.partitions)
        return sum(lags) <= self._drained_records
