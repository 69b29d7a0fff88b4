"""A consumer that writes lagbench's ledger, with a folder and a secret of its Deployment."""

import os
import signal
import threading
from pathlib import Path

from confluent_kafka import Consumer, Producer

from lagbench.consumer_ledger import Ledger

stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
kafka = {"bootstrap.servers": os.environ["KAFKA_BROKERS"]}
assert os.environ["DATABASE_PASSWORD"] == "correct horse"  # noqa: S105
assert Path(os.environ["CONFIG"]).read_text() == "currency: EUR\n"
producer = Producer(kafka)
ledger = Ledger(producer.produce)
consumer = Consumer(
    {
        **kafka,
        "group.id": os.environ["GROUP_ID"],
        "client.id": f"orders-{os.environ['LAGBENCH_POD']}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
consumer.subscribe([os.environ["ORDERS_TOPIC"]])
while not stopping.is_set():
    batch = [message for message in consumer.consume(100, 0.2) if message.error() is None]
    for message in batch:
        with ledger.work(message):
            pass
    if batch:
        ledger.write()
        producer.flush()
        consumer.commit(asynchronous=False)
consumer.close()
