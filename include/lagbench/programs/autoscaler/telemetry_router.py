"""Send telemetry to the topic that an object's annotations name; objects without them send none."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from lagbench.adapters.kafka.telemetry_log import TelemetryLog
from lagbench.core.scenario import (
    BOOTSTRAP_ANNOTATION,
    RUN_ID_ANNOTATION,
    TELEMETRY_TOPIC_ANNOTATION,
)
from lagbench.core.telemetry import Record

log = logging.getLogger(__name__)

SOURCE = "autoscaler"
_FLUSH_SECONDS = 2.0


class RecordLog(Protocol):
    """The topic and brokers for the records of one run."""

    def send(self, record: Record) -> None:
        """Queue a record without blocking."""
        ...

    def flush(self, timeout_seconds: float = ...) -> int:
        """Wait until all is delivered; returns how many records are left."""
        ...


class TelemetryRouter:
    """One producer per run, opened at its first record."""

    def __init__(self, open_log: Callable[[str, str], RecordLog] = TelemetryLog) -> None:
        """Open logs with ``open_log(bootstrap_servers, topic)``."""
        self._open_log = open_log
        self._logs: dict[tuple[str, str], RecordLog] = {}
        self._lock = threading.Lock()

    def send(self, manifest: Mapping[str, Any], record: Record) -> None:
        """Send ``record`` where the object's annotations say; trouble is logged, never raised."""
        place = _place(manifest)
        if place is None:
            return
        try:
            with self._lock:
                if place not in self._logs:
                    self._logs[place] = self._open_log(*place)
                target = self._logs[place]
            target.send(record)
        except Exception:
            log.exception("telemetry record lost")

    def keep_only(self, manifests: list[Mapping[str, Any]]) -> None:
        """Flush and drop the logs that none of the objects names any more."""
        wanted = {_place(manifest) for manifest in manifests}
        with self._lock:
            gone = [self._logs.pop(place) for place in list(self._logs) if place not in wanted]
        for item in gone:
            item.flush(_FLUSH_SECONDS)

    def close(self) -> None:
        """Flush everything, within two seconds a log."""
        self.keep_only([])


def _place(manifest: Mapping[str, Any]) -> tuple[str, str] | None:
    annotations = manifest["metadata"].get("annotations") or {}
    servers = annotations.get(BOOTSTRAP_ANNOTATION)
    topic = annotations.get(TELEMETRY_TOPIC_ANNOTATION)
    if not annotations.get(RUN_ID_ANNOTATION) or not servers or not topic:
        return None
    return servers, topic
