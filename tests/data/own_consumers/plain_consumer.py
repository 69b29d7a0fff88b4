"""A service that only reads and commits: what a message is about does not matter to it."""

from __future__ import annotations

import os
import signal
import sys
import time

from confluent_kafka import Consumer

stopped: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
consumer = Consumer(
    {
        "bootstrap.servers": os.environ["KAFKA_BROKERS"],
        "group.id": os.environ["GROUP_ID"],
        "client.id": os.environ["POD_NAME"],
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 1000,
        "partition.assignment.strategy": "cooperative-sticky",
    }
)
sys.stderr.write(f"mode {os.environ.get('MODE', 'first')}\n")
consumer.subscribe([os.environ["ORDERS_TOPIC"]])
while not stopped:
    message = consumer.poll(0.2)
    if message is not None and message.error() is None:
        time.sleep(0.004)
consumer.close()
