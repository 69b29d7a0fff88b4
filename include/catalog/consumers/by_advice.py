"""The consumer of orders with those points of the advice that ADVICE names, for an experiment.

Without any it does as ``as_documented.py``, with all as ``after_advice.py``: ``commit`` (after the
delivery, each second), ``sigterm`` (settle, leave), ``revoke`` (settle what leaves), ``assignor``
(cooperative-sticky, and a session of 10 s).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

SETTINGS = {"bootstrap.servers": os.environ["KAFKA_BROKERS"], "client.id": os.environ["CLIENT_ID"]}
ADVICE = frozenset(os.environ["ADVICE"].split())
SETTLE_SECONDS = 1.0
OF_ADVICE: dict[str, dict[str, Any]] = {
    "commit": {"enable.auto.commit": False},
    "sigterm": {},
    "revoke": {},
    "assignor": {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 1_000,
    },
}


class Orders:
    """Prices orders; who commits, and when, the advice says."""

    def __init__(self) -> None:
        """Join the group."""
        self._next: dict[tuple[str, int], int] = {}
        self._producer = Producer({**SETTINGS, "enable.idempotence": "commit" in ADVICE})
        settings: dict[str, Any] = {
            "group.id": os.environ["GROUP_ID"],
            "auto.offset.reset": "earliest",
        }
        for point in ADVICE:
            settings |= OF_ADVICE[point]
        self._consumer = Consumer({**SETTINGS, **settings})
        self._consumer.subscribe(
            [os.environ["ORDERS_TOPIC"]], on_revoke=self._revoked, on_lost=self._lost
        )

    def run(self, stopping: threading.Event) -> None:
        """Consume until asked to stop; then deliver, and leave."""
        settle_at = time.monotonic() + SETTLE_SECONDS
        try:
            while not stopping.is_set():
                self._producer.poll(0)
                message = self._consumer.poll(0.2)
                if message is not None:
                    self._take(message)
                if "commit" in ADVICE and time.monotonic() >= settle_at:
                    self._settle()
                    settle_at = time.monotonic() + SETTLE_SECONDS
        finally:
            self._settle()
            self._consumer.close()

    def _take(self, message: Message) -> None:
        if message.error():
            print(f"consumer: {message.error()}", file=sys.stderr)
            return
        order = json.loads(message.value() or b"{}")
        time.sleep(0.004)  # Call the downstream system.
        price = {"order": order.get("order"), "total": order.get("total_cents")}
        self._producer.produce(
            os.environ["PRICES_TOPIC"],
            json.dumps(price).encode(),
            key=message.key(),
            headers=message.headers(),
            on_delivery=_delivered,
        )
        place = (str(message.topic()), int(message.partition() or 0))
        self._next[place] = int(message.offset() or 0) + 1

    def _settle(self) -> None:
        """Deliver all results, then commit; what cannot be committed is tried again later."""
        if not self._next or self._producer.flush(30):
            return
        offsets = [TopicPartition(*place, offset) for place, offset in self._next.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            print(f"commit: {error}", file=sys.stderr)
        else:
            self._next.clear()

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if "revoke" in ADVICE:
            self._settle()
        self._lost(_consumer, partitions)

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Forget them: a later commit would take their new owner back."""
        for one in partitions:
            self._next.pop((one.topic, one.partition), None)


def _delivered(error: KafkaError | None, _message: Message) -> None:
    """Raise a failed delivery out of ``poll`` or ``flush``."""
    if error is not None:
        raise KafkaException(error)


def main() -> None:
    """Consume until SIGTERM, which without the advice just ends the process."""
    stopping = threading.Event()
    if "sigterm" in ADVICE:
        signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    Orders().run(stopping)


if __name__ == "__main__":
    main()
