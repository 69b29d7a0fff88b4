"""The telemetry topic: send records without ever blocking or failing the sender's work."""

from __future__ import annotations

import logging

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lagbench.adapters.kafka.client_settings import own_settings
from lagbench.adapters.kafka.recovery import RECOVERY
from lagbench.core.telemetry.record import Record
from lagbench.core.telemetry.records import encode_record

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
