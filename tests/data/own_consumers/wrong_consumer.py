"""A consumer with a fault: it commits a batch before it has done the work of it."""

import os
import signal
import threading
import time

from confluent_kafka import Consumer, Producer

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
    if batch:
        consumer.commit(asynchronous=False)
    for message in batch:
        time.sleep(0.004)
        producer.produce(
            os.environ["PRICES_TOPIC"],
            message.value(),
            key=message.key(),
            headers=message.headers(),
        )
        producer.poll(0)
    producer.flush()
consumer.close()
