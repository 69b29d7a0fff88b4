"""A consumer that logs in to Kafka by variables, or by the settings file that it is given."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer

stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
if sys.argv[1] == "file":
    lines = Path(os.environ["SETTINGS_FILE"]).read_text().splitlines()
    kafka = dict(line.split("=", 1) for line in lines)
else:
    kafka = {
        "security.protocol": os.environ["PROTOCOL"],
        "sasl.mechanism": os.environ["MECHANISM"],
        "sasl.username": os.environ["USER_NAME"],
        "sasl.password": os.environ["USER_PASSWORD"],
        "ssl.ca.location": os.environ["CA_FILE"],
        "ssl.certificate.location": os.environ["CERTIFICATE_FILE"],
        "ssl.key.location": os.environ["KEY_FILE"],
        "ssl.endpoint.identification.algorithm": "none",
    }
sys.stderr.write(f"mode {os.environ.get('MODE', 'first')}\n")
kafka["bootstrap.servers"] = os.environ["KAFKA_BROKERS"]
producer = Producer(kafka)
consumer = Consumer(
    {
        **kafka,
        "group.id": os.environ["GROUP_ID"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
consumer.subscribe([os.environ["ORDERS_TOPIC"]])
while not stopping.is_set():
    batch = [message for message in consumer.consume(100, 0.2) if message.error() is None]
    for message in batch:
        time.sleep(float(os.environ.get("WORK_SECONDS", "0")))
        producer.produce(
            os.environ["PRICES_TOPIC"], message.value(), message.key(), headers=message.headers()
        )
    if batch:
        producer.flush()
        consumer.commit(asynchronous=False)
consumer.close()
