"""Watch the limits at which a scenario gives its run up."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable

from lagbench.adapters.kafka.telemetry_topic import TelemetryFollower
from lagbench.core.scenario.abort import Abort
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import LagSample
from lagbench.programs.producer.producer_settings import ProducerSettings

_LOOK_SECONDS = 0.5
"""The recorder reads once a second."""


def disk_free_bytes() -> int:
    """Return what is free where this process works: on the embedded bench, in its own folder."""
    return shutil.disk_usage(".").free


class AbortWatch:
    """Compares the newest readings of one group's recorder with the limits."""

    def __init__(
        self,
        limits: Abort,
        *,
        clock: Callable[[], float] = time.monotonic,
        free: Callable[[], int] = disk_free_bytes,
    ) -> None:
        """Begin with the stream; ``clock`` is in seconds, ``free`` in bytes."""
        self._limits, self._clock, self._free = limits, clock, free
        self._lag: int | None = None
        self._read_at = self._look_at = clock()

    def take(self, record: Record) -> None:
        """Learn from one record of the group's telemetry."""
        if isinstance(record, LagSample):
            self._lag = record.uncommitted
            self._read_at = self._clock()

    def reason(self) -> str:
        """Return the broken limit, empty if none is; it looks twice a second."""
        now = self._clock()
        if now < self._look_at:
            return ""
        self._look_at = now + _LOOK_SECONDS
        return self._limits.reason(
            lag_records=self._lag, silent_seconds=now - self._read_at, disk_free_bytes=self._free()
        )


def watch_run(settings: ProducerSettings) -> Callable[[], str]:
    """Follow the telemetry of each group; return a look at the limits, empty if none is broken."""
    flags = settings.flags
    watches = []
    for topic in (flags.telemetry_topic, flags.second_telemetry_topic):
        if flags.abort is not None and topic is not None:
            watch = AbortWatch(flags.abort)
            watches.append(watch)
            TelemetryFollower(flags.bootstrap_servers, topic, watch.take, settings.source).start()
    return lambda: next(filter(None, (watch.reason() for watch in watches)), "")
