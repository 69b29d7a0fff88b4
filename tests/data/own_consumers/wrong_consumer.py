"""A consumer with one fault, by its argument: never-commits, commits-first or drops-headers."""

import os
import signal
import sys
import threading
import time

from confluent_kafka import Consumer, Producer

FAULT = sys.argv[1]
stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
kafka = {"bootstrap.servers": os.environ["KAFKA_BROKERS"], "client.id": os.environ["CLIENT_ID"]}
producer = Producer({**kafka, "linger.ms": 0})
consumer = Consumer(
    {
        **kafka,
        "group.id": os.environ["GROUP_ID"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
    }
)
consumer.subscribe([os.environ["ORDERS_TOPIC"]])
while not stopping.is_set():
    batch = [message for message in consumer.consume(100, 0.2) if message.error() is None]
    if batch and FAULT == "commits-first":
        consumer.commit(asynchronous=False)
    for message in batch:
        time.sleep(0.004)
        producer.produce(
            os.environ["PRICES_TOPIC"],
            message.value(),
            key=message.key(),
            headers=None if FAULT == "drops-headers" else message.headers(),
        )
        producer.poll(0)
    producer.flush()
    if batch and FAULT == "drops-headers":
        consumer.commit(asynchronous=False)
consumer.close()
