"""A service that prices orders, by a developer who knew the client's documentation and no lagbench.

Nothing is set that the documentation's first example does not set: offsets are committed
automatically, the assignor is the default, and a SIGTERM ends the process where it is.
"""

from __future__ import annotations

import json
import logging
import os
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("order-prices")

BROKERS = os.environ["KAFKA_BROKERS"]
ORDERS_TOPIC = os.environ["ORDERS_TOPIC"]
PRICES_TOPIC = os.environ["PRICES_TOPIC"]
GROUP_ID = os.environ["GROUP_ID"]


def delivery_report(error: KafkaError | None, message: Message) -> None:
    """Log a price that was not delivered."""
    if error is not None:
        log.error("Price of %s was not delivered: %s", message.key(), error)


def process_order(order: dict[str, Any]) -> dict[str, Any]:
    """Return the price of an order."""
    time.sleep(0.004)  # Call the downstream system.
    return {"order": order["order"], "total": order["total_cents"]}


def main() -> None:
    """Consume until the process ends."""
    consumer = Consumer(
        {"bootstrap.servers": BROKERS, "group.id": GROUP_ID, "auto.offset.reset": "earliest"}
    )
    producer = Producer({"bootstrap.servers": BROKERS})

    consumer.subscribe([ORDERS_TOPIC])
    log.info("Consuming %s as group %s", ORDERS_TOPIC, GROUP_ID)

    try:
        while True:
            # Serve the delivery callbacks of earlier calls of produce().
            producer.poll(0)

            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                log.error("Consumer error: %s", message.error())
                continue

            price = process_order(json.loads(message.value() or b"{}"))
            producer.produce(
                PRICES_TOPIC,
                key=message.key(),
                value=json.dumps(price).encode(),
                headers=message.headers(),
                on_delivery=delivery_report,
            )
    except KeyboardInterrupt:
        log.info("Interrupted, shutting down")
    finally:
        # Close the consumer, which commits the final offsets.
        consumer.close()
        producer.flush()


if __name__ == "__main__":
    main()
