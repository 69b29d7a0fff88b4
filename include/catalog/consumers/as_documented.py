"""A consumer of orders as a client's first example shows one: poll, process, repeat.

It prices each order (4 ms) and sends the result to an output topic with the headers that it got.
Nothing is set that a beginner would not set: offsets are committed automatically, the assignor is
the default, and a SIGTERM ends the process where it is.
"""

from __future__ import annotations

import json
import os
import sys
import time

from confluent_kafka import Consumer, Message, Producer

SETTINGS = {"bootstrap.servers": os.environ["KAFKA_BROKERS"]}


def price(message: Message) -> bytes:
    """Return the order's total, after what stands for a look-up elsewhere."""
    order = json.loads(message.value() or b"{}")
    time.sleep(0.004)
    return json.dumps({"order": order.get("order"), "total": order.get("total_cents")}).encode()


def main() -> None:
    """Consume until the process ends."""
    consumer = Consumer(
        {**SETTINGS, "group.id": os.environ["GROUP_ID"], "auto.offset.reset": "earliest"}
    )
    producer = Producer(SETTINGS)
    consumer.subscribe([os.environ["ORDERS_TOPIC"]])
    try:
        while True:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                print(f"consumer: {message.error()}", file=sys.stderr)
                continue
            producer.produce(
                os.environ["PRICES_TOPIC"],
                price(message),
                key=message.key(),
                headers=message.headers(),
            )
            producer.poll(0)
    finally:
        producer.flush()
        consumer.close()


if __name__ == "__main__":
    main()
