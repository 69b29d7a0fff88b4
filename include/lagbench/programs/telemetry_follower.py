"""Follow the run's telemetry topic: what producer, pods and Dag report, for the metrics."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from lagbench.core.telemetry.records import decode_record
from lagbench.core.telemetry.records_of_programs import Record
from pod_program.kafka_settings import RECOVERY, own_settings

log = logging.getLogger(__name__)

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
