"""The offsets of the query: from its checkpoint, and published to a group without members."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition
from pyspark.sql.streaming import StreamingQueryListener

from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.core.telemetry.records_of_programs import OffsetsPublished, SparkBatch
from lagbench.errors import NotReady, WrongInput
from lagbench_enrich.session import EnrichOptions
from pod_program.kafka_settings import RECOVERY, own_settings

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_VERSION = "v1"
_ANSWER_SECONDS = 10.0
_PATIENCE_SECONDS, _AGAIN_SECONDS = 30.0, 0.2
_FAILING_SECONDS = 60.0
# A broker that has just started, or starts again, creates and loads its coordinators.
_PASSING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError._TIMED_OUT,  # noqa: SLF001 - librdkafka's local codes are spelt so in its API
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
    }
)
Answer = TypeVar("Answer")

log = logging.getLogger("lagbench_enrich")


def checkpointed(place: str, topic: str) -> dict[int, int] | None:
    """Return the end of the last committed batch, by partition; None: there is none.

    :param place: path or URI of the checkpoint; one in an object store is Spark's alone to read.
    :raises WrongInput: the checkpoint is one of another topic.
    :raises NotReady: it cannot be read.
    """
    parts = urlsplit(place)
    if parts.scheme not in {"", "file"}:
        return None

    def batches(kind: str) -> list[Path]:
        files = Path(parts.path, kind).glob("*")
        return sorted((f for f in files if f.name.isdigit()), key=lambda file: int(file.name))

    planned, committed = batches("offsets"), batches("commits")
    ends = None
    for file in [*planned[-1:], *(Path(parts.path, "offsets", f.name) for f in committed[-1:])]:
        try:
            version, _, *sources = file.read_text(encoding="utf-8").splitlines()
            ends = json.loads(sources[0])
        except (OSError, ValueError, IndexError) as error:
            raise NotReady(f"cannot read the checkpoint {file}: {error}") from error
        if version != _VERSION or not isinstance(ends, dict):
            raise NotReady(f"{file} is not an offset log of version {_VERSION}")
        if set(ends) != {topic}:
            raise WrongInput(
                where="enrich_stream",
                field="--checkpoint",
                value=f"{place}, a checkpoint of topic {', '.join(sorted(ends))}",
                allowed=f"a new folder, or a checkpoint of topic {topic}",
            )
    if not committed or ends is None:
        return None
    return {int(partition): int(at) for partition, at in ends[topic].items()}


class OffsetPublisher:
    """Commits offsets of one topic to one group without joining it; used by one thread at a time.

    The broker takes such a commit only while the group has no members.
    """

    def __init__(self, bootstrap_servers: str, group: str, topic: str) -> None:
        """Open a client; it never subscribes."""
        self._group, self._topic = group, topic
        self._client = Consumer(
            {
                **own_settings(bootstrap_servers),
                "group.id": group,
                "enable.auto.commit": False,
                "client.id": "lagbench-offset-publisher",
                **RECOVERY,
                "log_level": 4,
            }
        )

    def publish(self, offsets: Mapping[int, int]) -> None:
        """Set the group's offsets: next offset to read, by partition.

        :raises NotReady: the broker does not take them, for example because the group has members.
        """
        places = [TopicPartition(self._topic, p, at) for p, at in sorted(offsets.items())]
        what = f"could not publish to {self._group}"
        commit = self._client.commit
        answered = self._patiently(lambda: commit(offsets=places, asynchronous=False), what)
        refused = [place.error for place in answered or [] if place.error is not None]
        if refused:
            raise NotReady(f"{what}: {refused[0].str()}")

    def published(self) -> dict[int, int]:
        """Return the group's offsets; partitions without one are left out.

        :raises NotReady: the broker does not answer.
        """
        answered = self._patiently(
            lambda: self._client.committed(self._places(), timeout=_ANSWER_SECONDS),
            f"no offsets of {self._group}",
        )
        return {at.partition: at.offset for at in answered if at.offset != OFFSET_INVALID}

    def starts(self) -> dict[int, int]:
        """Return the first offset of each partition.

        :raises NotReady: the broker does not answer.
        """
        marks = self._client.get_watermark_offsets
        return self._patiently(
            lambda: {at.partition: marks(at, _ANSWER_SECONDS)[0] for at in self._places()},
            f"no offsets of {self._topic}",
        )

    def _patiently(self, call: Callable[[], Answer], what: str) -> Answer:
        """Return the answer of a call, made again while the broker is about to be able to answer.

        :raises NotReady: it could not answer within ``_PATIENCE_SECONDS``, or never will.
        """
        give_up_at = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return call()
            except KafkaException as error:
                if error.args[0].code() not in _PASSING or time.monotonic() > give_up_at:
                    raise NotReady(f"{what}: {error.args[0].str()}") from error
            time.sleep(_AGAIN_SECONDS)

    def _places(self) -> list[TopicPartition]:
        topics = self._client.list_topics(self._topic, _ANSWER_SECONDS).topics
        return [TopicPartition(self._topic, number) for number in topics[self._topic].partitions]


class BatchListener(StreamingQueryListener):
    """Publishes the end offsets of each batch, also while idle, and reports the batch.

    Spark calls it after each batch, and every 10 s while there is nothing to do. The calls come
    asynchronously: the published offsets are late by the time of a call.
    """

    def __init__(
        self,
        options: EnrichOptions,
        publisher: OffsetPublisher,
        telemetry: TelemetryLog,
        executors: Callable[[], int],
    ) -> None:
        """Nothing is published yet."""
        self._options, self._publisher, self._telemetry = options, publisher, telemetry
        self._executors = executors
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
        instant = datetime.fromisoformat(progress.timestamp).astimezone(UTC)
        started_at = round(instant.timestamp() * 1000) * 1_000_000
        seconds = (progress.durationMs.get("triggerExecution") or 0) / 1000
        found: dict[str, dict[str, int]] = json.loads(progress.sources[0].endOffset or "{}")
        ends = {int(p): at for p, at in found.get(self._options.topic, {}).items()}
        is_new = ends != self._last
        self.has_heard = True
        if ends:
            self._publish(progress.batchId, ends, started_at + round(seconds * 1e9))
        if not is_new and not progress.numInputRows:
            return
        # Spark has no rate (NaN or infinity) for an empty batch.
        given = (progress.inputRowsPerSecond, progress.processedRowsPerSecond)
        rates = [float(rate) if rate is not None and rate < float("inf") else 0.0 for rate in given]
        self._telemetry.send(
            SparkBatch(
                at=time.time_ns(),
                source=self._options.pod_name,
                batch=progress.batchId,
                started_at=started_at,
                rows=progress.numInputRows,
                batch_seconds=seconds,
                trigger_seconds=self._options.trigger_seconds,
                input_rows_per_second=rates[0],
                processed_rows_per_second=rates[1],
                executors=self._executors(),
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
