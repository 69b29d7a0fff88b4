"""Provide a target for policies: a group that lags on every partition, and pods that do nothing."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.core.scenario.run_names import CONSUMER_DEPLOYMENT, RunNames
from tests.cluster.rig.images import PAUSE
from tests.eventually import eventually

PARTITIONS = 12


def let_lag(bootstrap_servers: str, names: RunNames, lag: int) -> None:
    """Make the run's topic, and let its group lag by ``lag`` in all."""
    with KafkaAdmin(bootstrap_servers) as admin:
        admin.create_topics([TopicSpec(names.events_topic, PARTITIONS, {})])
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(lag):
        producer.produce(names.events_topic, b"x", partition=number % PARTITIONS)
    assert producer.flush(120) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": names.group})
    places = [TopicPartition(names.events_topic, number, 0) for number in range(PARTITIONS)]

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=places, asynchronous=False)
        except KafkaException:  # the coordinator of a new group takes its time
            return False
        return True

    eventually(is_committed, f"commits of {names.group}")
    consumer.close()


def idle_consumers(namespace: str, replicas: int, *, has_node: bool = True) -> dict[str, Any]:
    """Return a Deployment of pods that do nothing; without a node they stay pending, at no cost."""
    container = {
        "name": "main",
        "image": PAUSE,
        "imagePullPolicy": "Never",
        "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}},
    }
    where = {} if has_node else {"nodeSelector": {"lagbench.io/none": "none"}}
    labels = {"app": CONSUMER_DEPLOYMENT}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **where}}
    selector = {"matchLabels": labels}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": CONSUMER_DEPLOYMENT, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }
