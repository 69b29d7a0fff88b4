"""The telemetry topic: send without ever blocking or failing the sender's work, read, follow."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import TypeVar

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from lagbench.core.telemetry.records import decode_record, encode_record
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.errors import NotReady
from pod_program.kafka_settings import RECOVERY, own_settings

log = logging.getLogger(__name__)


class TelemetryLog:
    """Sends records to one run's telemetry topic.

    Records wait in librdkafka's queue through an outage of the broker (up to 5 minutes), so an
    outage costs no telemetry of the parts that survive it.
    """

    def __init__(self, bootstrap_servers: str, topic: str, *, queue_records: int = 100_000) -> None:
        """Open a producer; nothing is sent yet, and an unreachable broker is fine."""
        self._servers, self._topic = bootstrap_servers, topic
        self.dropped = 0  # refused by the full queue, or given up after an outage
        self._told_dropped = 0
        self._producer = Producer(
            {
                **own_settings(bootstrap_servers),
                "enable.idempotence": True,
                "linger.ms": 50,
                "queue.buffering.max.messages": queue_records,
                "message.timeout.ms": 300_000,
                **RECOVERY,
                "client.id": "lagbench-telemetry",
                "log_level": 2,  # a broker that is away is the recorder's to tell, once a second
            }
        )

    def send(self, record: Record) -> None:
        """Queue ``record``; a full queue is logged and counted in ``dropped``, never raised."""
        try:
            self._producer.produce(
                self._topic,
                encode_record(record),
                key=record.source.encode(),
                on_delivery=self._on_delivery,
            )
            self._producer.poll(0)
        except (BufferError, KafkaException) as error:
            self.dropped += 1
            log.warning("telemetry record dropped: %s", error)

    def flush(self, timeout_seconds: float = 10.0) -> int:
        """Wait until everything is delivered; returns how many records are still queued."""
        left = int(self._producer.flush(timeout_seconds))
        if left or self.dropped > self._told_dropped:
            self._told_dropped = self.dropped
            log.error(
                "telemetry is missing in topic %s at %s: "
                "%d records dropped so far, %d not delivered within %g s",
                self._topic,
                self._servers,
                self.dropped,
                left,
                timeout_seconds,
            )
        return left

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.dropped += 1
            log.warning("telemetry record not delivered: %s", error.str())


Wanted = TypeVar("Wanted", bound=Record)
_BATCH = 1000


def first_record(
    bootstrap_servers: str,
    topic: str,
    kind: type[Wanted],
    *,
    where: Callable[[Wanted], bool] = lambda _: True,
    timeout_seconds: float = 10.0,
) -> Wanted | None:
    """Return the first record of ``kind`` for which ``where`` holds, None when none is there yet.

    :raises NotReady: the broker did not answer within ``timeout_seconds``.
    """
    with closing(read_records(bootstrap_servers, topic, timeout_seconds=timeout_seconds)) as all_of:
        fitting = (record for record in all_of if isinstance(record, kind))
        return next((record for record in fitting if where(record)), None)


def last_record(
    bootstrap_servers: str, topic: str, kind: type[Wanted], *, timeout_seconds: float = 10.0
) -> Wanted | None:
    """Return the newest record of ``kind``, None when none is there yet."""
    with closing(read_records(bootstrap_servers, topic, timeout_seconds=timeout_seconds)) as all_of:
        newest = None
        for record in all_of:
            newest = record if isinstance(record, kind) else newest
        return newest


def read_records(
    bootstrap_servers: str, topic: str, *, timeout_seconds: float = 10.0
) -> Generator[Record, None, None]:
    """Yield the records of ``topic`` from its beginning to its end as it was at the first."""
    consumer = Consumer(
        {
            **own_settings(bootstrap_servers),
            "group.id": "lagbench-telemetry-read",  # required, never joined
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "log_level": 0,
        }
    )
    place = TopicPartition(topic, 0, OFFSET_BEGINNING)
    deadline = time.monotonic() + timeout_seconds
    try:
        _, end = consumer.get_watermark_offsets(place, timeout=timeout_seconds)
        consumer.assign([place])
        next_offset = 0
        while next_offset < end:
            if time.monotonic() > deadline:
                raise NotReady(
                    f"read {next_offset} of {end} records of {topic}, then nothing for "
                    f"{timeout_seconds:.0f} s; check that the broker runs (lagbench status)"
                )
            read_before = next_offset
            for message in consumer.consume(_BATCH, timeout=0.2):
                value, offset = message.value(), message.offset()
                if message.error() is not None or value is None or offset is None:
                    continue
                next_offset = offset + 1
                try:
                    record = decode_record(value)
                except msgspec.DecodeError:  # somebody else's: the accounting counts it
                    continue
                yield record
            if next_offset > read_before:  # a long run has more than can be read in that time
                deadline = time.monotonic() + timeout_seconds
    except KafkaException as error:
        raise NotReady(
            f"could not read {topic} at {bootstrap_servers}: {error.args[0]}. "
            "Check that the broker runs (lagbench status)"
        ) from error
    finally:
        consumer.close()


_BATCH_RECORDS = 1000
_POLL_SECONDS = 0.5
_FETCH_BYTES = 65_536  # with a wait of 1 s: at most a few requests a second, whatever the traffic
_FETCH_WAIT_MS = 1000


class TelemetryFollower(threading.Thread):
    """Hands every record of the topic to ``take``, from its beginning; joins no group."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        take: Callable[[Record], None],
        source: str,
        *,
        is_prompt: bool = False,
    ) -> None:
        """Leave out what ``source`` sent itself: that is known already.

        ``is_prompt``: hand a record over as soon as it is there, for more requests.
        """
        super().__init__(name="follow-telemetry", daemon=True)
        self._place = TopicPartition(topic, 0, OFFSET_BEGINNING)
        self._take = take
        self._source = source
        self._stopping = threading.Event()
        # consume() returns when the batch is full or the time is over.
        self._batch = 1 if is_prompt else _BATCH_RECORDS
        self._settings = {
            **own_settings(bootstrap_servers),
            "group.id": "lagbench-telemetry-follow",  # required, never joined
            "enable.auto.commit": False,
            "fetch.min.bytes": 1 if is_prompt else _FETCH_BYTES,
            "fetch.wait.max.ms": _FETCH_WAIT_MS,
            **RECOVERY,
            "log_level": 2,  # a broker that is away is the recorder's to tell, once a second
        }

    def run(self) -> None:
        """Follow until stopped; through an outage of the broker the client reconnects."""
        consumer = Consumer(self._settings)
        consumer.assign([self._place])
        while not self._stopping.is_set():
            for message in consumer.consume(self._batch, timeout=_POLL_SECONDS):
                value = message.value()
                if message.error() is None and value is not None:
                    self.hand_over(value)
        consumer.close()

    def stop(self) -> None:
        """End after the poll under way."""
        self._stopping.set()

    def hand_over(self, value: bytes) -> None:
        """Pass one record on; a message that is not a record is logged."""
        try:
            record = decode_record(value)
        except msgspec.DecodeError as error:
            log.warning("telemetry record not understood: %s", error)
            return
        if record.source != self._source:
            self._take(record)
