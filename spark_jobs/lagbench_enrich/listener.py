"""Publish the end offsets of each batch, also while idle, and report the batch."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming import StreamingQueryListener

from lagbench.adapters.kafka.telemetry_log import TelemetryLog
from lagbench.core.telemetry import OffsetsPublished, SparkBatch
from lagbench.errors import NotReady
from lagbench_enrich.options import EnrichOptions
from lagbench_enrich.publisher import OffsetPublisher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_FAILING_SECONDS = 60.0

log = logging.getLogger("lagbench_enrich")


class BatchListener(StreamingQueryListener):
    """Called by Spark after each batch, and every 10 s while there is nothing to do.

    The calls come asynchronously: the published offsets are late by the time of a call.
    """

    def __init__(
        self,
        options: EnrichOptions,
        publisher: OffsetPublisher,
        telemetry: TelemetryLog,
        session: SparkSession,
    ) -> None:
        """Nothing is published yet."""
        self._options, self._publisher, self._telemetry = options, publisher, telemetry
        self._context: Any = session.sparkContext._jsc.sc()  # noqa: SLF001 - no public way
        self._last: dict[int, int] = {}
        self._failing_since: float | None = None
        self.has_heard = False
        """True: the query has ended a batch, or found nothing to do."""

    def raise_failure(self) -> None:
        """Check that offsets can be published; a broker may restart meanwhile.

        :raises NotReady: for a minute they could not.
        """
        since = self._failing_since
        if since is not None and time.monotonic() - since > _FAILING_SECONDS:
            raise NotReady(
                f"for {_FAILING_SECONDS:g} s no offset could be published to {self._options.group}"
            )

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Publish the end of the batch, then report it."""
        progress = event.progress
        started_at = _instant_ns(progress.timestamp)
        seconds = (progress.durationMs.get("triggerExecution") or 0) / 1000
        found: dict[str, dict[str, int]] = json.loads(progress.sources[0].endOffset or "{}")
        ends = {int(p): at for p, at in found.get(self._options.topic, {}).items()}
        is_new = ends != self._last
        self.has_heard = True
        if ends:
            self._publish(progress.batchId, ends, started_at + round(seconds * 1e9))
        if not is_new and not progress.numInputRows:
            return
        self._telemetry.send(
            SparkBatch(
                at=time.time_ns(),
                source=self._options.pod_name,
                batch=progress.batchId,
                started_at=started_at,
                rows=progress.numInputRows,
                batch_seconds=seconds,
                trigger_seconds=self._options.trigger_seconds,
                input_rows_per_second=_rate(progress.inputRowsPerSecond),
                processed_rows_per_second=_rate(progress.processedRowsPerSecond),
                executors=int(self._context.getExecutorMemoryStatus().size()) - 1,
            )
        )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802, ARG002
        """Publish again: a trigger must see that the query lives, and an offset may expire."""
        self.has_heard = True
        if self._last:
            self._publish(None, self._last, None)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing: the driver sees the query's end itself."""

    def _publish(self, batch: int | None, ends: dict[int, int], ended_at: int | None) -> None:
        try:
            self._publisher.publish(ends)
        except NotReady as error:
            log.warning("%s", error)
            self._failing_since = self._failing_since or time.monotonic()
            return
        self._failing_since = None
        is_new, self._last = ends != self._last, ends
        now = time.time_ns()
        self._telemetry.send(
            OffsetsPublished(
                at=now,
                source=self._options.pod_name,
                batch=batch,
                offsets={str(partition): at for partition, at in sorted(ends.items())},
                delay_seconds=(now - ended_at) / 1e9 if is_new and ended_at else None,
            )
        )


def _instant_ns(text: str) -> int:
    """Return the unix nanoseconds of Spark's ISO timestamp."""
    instant = datetime.fromisoformat(text).astimezone(UTC)
    return round(instant.timestamp() * 1000) * 1_000_000


def _rate(value: float | None) -> float:
    """Return a rate; Spark has none (NaN or infinity) for an empty batch."""
    return float(value) if value is not None and value < float("inf") else 0.0
