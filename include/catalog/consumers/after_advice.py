"""The same consumer of orders after the advice of docs/own-consumer.md.

* A result is delivered before its order's offset is committed. One that cannot be delivered ends
  the process, and the next owner prices the order again: a result that failed left the queue, too.
* Partitions that leave are settled first: results delivered, offsets committed.
* A SIGTERM ends the loop, settles and leaves the group, so no partition waits for a session.
* The assignor moves only the partitions that must move.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

SETTINGS = {"bootstrap.servers": os.environ["KAFKA_BROKERS"], "client.id": os.environ["CLIENT_ID"]}
COMMITS: dict[str, Any] = {"enable.auto.commit": False}
MOVES_LITTLE: dict[str, Any] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 1_000,
}


def price(message: Message) -> bytes:
    """Return the order's total, after what stands for a look-up elsewhere."""
    order = json.loads(message.value() or b"{}")
    time.sleep(0.004)
    return json.dumps({"order": order.get("order"), "total": order.get("total_cents")}).encode()


class Orders:
    """Prices orders, and commits those whose price has been delivered."""

    settings: Mapping[str, Any] = {**COMMITS, **MOVES_LITTLE}
    settle_seconds = 1.0
    leave_seconds = 5.0

    def __init__(self) -> None:
        """Join the group."""
        self._next: dict[tuple[str, int], int] = {}
        self._producer = Producer({**SETTINGS, "enable.idempotence": True})
        group = {"group.id": os.environ["GROUP_ID"], "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**SETTINGS, **group, **self.settings})
        self._consumer.subscribe(
            [os.environ["ORDERS_TOPIC"]], on_revoke=self._revoked, on_lost=self._lost
        )

    def run(self, stopping: threading.Event) -> None:
        """Consume until asked to stop; then settle and leave."""
        settle_at = time.monotonic() + self.settle_seconds
        while not stopping.is_set():
            message = self._consumer.poll(0.2)
            if message is not None:
                self._take(message)
            if time.monotonic() >= settle_at:
                self._settle()
                settle_at = time.monotonic() + self.settle_seconds
        self._settle()
        self._leave()

    def _leave(self) -> None:
        """Leave the group, also without a partition: librdkafka's ``close`` alone would not."""
        self._consumer.unsubscribe()
        deadline = time.monotonic() + self.leave_seconds
        while self._consumer.memberid() and not self._consumer.assignment():
            if time.monotonic() > deadline:
                break
            self._consumer.poll(0.05)  # a rebalance that runs comes first
        self._consumer.close()

    def _take(self, message: Message) -> None:
        if message.error():
            print(f"consumer: {message.error()}", file=sys.stderr)
            return
        self._producer.produce(
            os.environ["PRICES_TOPIC"],
            price(message),
            key=message.key(),
            headers=message.headers(),
            on_delivery=_delivered,
        )
        self._producer.poll(0)
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
        self._settle()
        self._forget(partitions)

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._next.pop((one.topic, one.partition), None)


def _delivered(error: KafkaError | None, _message: Message) -> None:
    """Raise a failed delivery out of ``poll`` or ``flush``."""
    if error is not None:
        raise KafkaException(error)


def main() -> None:
    """Consume until SIGTERM."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    Orders().run(stopping)


if __name__ == "__main__":
    main()
