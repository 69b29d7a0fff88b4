"""Offsets of consumer groups from one Apache Iggy server, as the lag scaler wants them.

Nothing joins a group or changes the server: reads over one connection that all objects of the
server share. A sample is whole or it has an error: an outage is the error of all samples, a
stream, topic or group that does not exist that of its own; neither ever looks like a group
without offsets.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lagbench.adapters.iggy.iggy_batch import StreamTopic, read_groups
from lagbench.adapters.iggy.iggy_channel import ConnectionLost, Deadline, IggyChannel
from lagbench.adapters.iggy.iggy_connection import IggyConnection
from lagbench.core.lag_scaler import GroupSample, GroupTopic, failed_sample
from lagbench.errors import NotReady

DEFAULT_TIMEOUT_SECONDS = 5.0
# 0.5, 1, 2, 4, 8 s: the longest stays below the scaler's default interval of 10 s, so that no
# sample is left out for waiting alone.
_FIRST_BACKOFF_SECONDS = 0.5
_LONGEST_BACKOFF_SECONDS = 8.0


@dataclass(slots=True)
class _Backoff:
    """When the next connect may be tried, and why the last one failed."""

    failures: int = 0
    not_before: float = 0.0
    reason: str = ""

    def failed(self, now: float, reason: str) -> None:
        wait = min(_FIRST_BACKOFF_SECONDS * 2**self.failures, _LONGEST_BACKOFF_SECONDS)
        self.failures = min(self.failures + 1, 16)
        self.not_before, self.reason = now + wait, reason

    def check(self, now: float) -> None:
        if now < self.not_before:
            # the same words each time: whoever logs changes only does not log this one
            raise NotReady(self.reason)


class IggySource:
    """A ``LagSource`` for one server; samples of several threads follow one another."""

    def __init__(
        self,
        connection: IggyConnection,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        wall_clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Connect at the first sample; a sample, connect included, takes at most the timeout."""
        self.connection = connection
        self.connects_tried = 0
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._wall_clock_ns = wall_clock_ns
        self._lock = threading.Lock()
        self._channel: IggyChannel | None = None
        self._backoff = _Backoff()
        self._partitions: dict[StreamTopic, tuple[int, ...]] = {}

    @property
    def protocol_version(self) -> str:
        """Return the server's frame layout, ``0.8`` or ``0.9``; empty while not connected."""
        channel = self._channel
        return channel.layout.version if channel is not None else ""

    def sample(self, wanted: Sequence[GroupTopic]) -> Mapping[GroupTopic, GroupSample]:
        """Return a sample per requested group; an outage gives all of them the same error."""
        deadline = Deadline(self._timeout_seconds, self._clock)
        try:
            if not self._lock.acquire(timeout=self._timeout_seconds):
                where = self.connection.server_address
                raise deadline.passed(f"wait for the last sample of the Iggy server at {where}")
            try:
                return self._sampled(wanted, deadline)
            finally:
                self._lock.release()
        except NotReady as error:
            at_ns = self._wall_clock_ns()
            return {item: failed_sample(at_ns, str(error)) for item in wanted}

    def close(self) -> None:
        """Close the connection; a later sample would open it again."""
        with self._lock:
            self._drop()

    def _sampled(
        self, wanted: Sequence[GroupTopic], deadline: Deadline
    ) -> dict[GroupTopic, GroupSample]:
        if not wanted:
            return {}
        if self._channel is not None:
            try:
                return self._read(self._channel, wanted, deadline)
            except ConnectionLost:
                pass  # closed while idle: a server that was restarted costs no sample
        self._backoff.check(self._clock())
        self.connects_tried += 1
        try:
            self._channel = IggyChannel.open(self.connection, deadline)
            samples = self._read(self._channel, wanted, deadline)
        except NotReady as error:
            self._backoff.failed(self._clock(), str(error))
            raise
        self._backoff = _Backoff()
        return samples

    def _read(
        self, channel: IggyChannel, wanted: Sequence[GroupTopic], deadline: Deadline
    ) -> dict[GroupTopic, GroupSample]:
        try:
            return read_groups(channel, wanted, self._partitions, deadline, self._wall_clock_ns)
        except BaseException:
            self._drop()  # replies may still be under way: this connection is out of step
            raise

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
