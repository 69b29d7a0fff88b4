"""What policies act on: a group that lags on every partition, pods that do nothing, policies."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.core.scenario.run_names import CONSUMER_DEPLOYMENT, RunNames
from tests.cluster.rig.images import PAUSE
from tests.eventually import eventually

PARTITIONS = 12
CRON = {
    "type": "cron",
    "metadata": {
        "timezone": "UTC",
        "start": "0 6 * * *",
        "end": "0 7 * * *",
        "desiredReplicas": "2",
    },
}
"""A trigger that asks nobody."""


def let_lag(
    bootstrap_servers: str, names: RunNames, lag: int, *, partitions: int = PARTITIONS
) -> None:
    """Make the run's topic, and let its group lag by ``lag`` in all."""
    with KafkaAdmin(bootstrap_servers) as admin:
        admin.create_topics([TopicSpec(names.events_topic, partitions, {})])
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(lag):
        producer.produce(names.events_topic, b"x", partition=number % partitions)
    assert producer.flush(120) == 0
    commit(bootstrap_servers, names, 0, partitions=partitions)


def commit(bootstrap_servers: str, names: RunNames, offset: int, *, partitions: int) -> None:
    """Commit the same offset on every partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": names.group})
    places = [TopicPartition(names.events_topic, number, offset) for number in range(partitions)]

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=places, asynchronous=False)
        except KafkaException:  # the coordinator of a new group takes its time
            return False
        return True

    eventually(is_committed, f"commits of {names.group}")
    consumer.close()


def scaled_object(
    namespace: str, name: str, *triggers: dict[str, Any], at_once: int = 0, **spec: Any
) -> dict[str, Any]:
    """Return a ScaledObject on the Deployment of its name, with a trigger that asks nobody or more.

    :param at_once: seconds of a period in which any number of pods may come or go, if given.
    """
    if at_once:
        pods = {"type": "Pods", "value": 100, "periodSeconds": at_once}
        side = {"stabilizationWindowSeconds": 0, "policies": [pods]}
        behavior = {"behavior": {"scaleUp": side, "scaleDown": side}}
        spec["advanced"] = {"horizontalPodAutoscalerConfig": behavior}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"name": name},
            "pollingInterval": 5,
            "minReplicaCount": 1,
            "triggers": [*triggers] or [CRON],
            **spec,
        },
    }


def idle_consumers(
    namespace: str, replicas: int, *, name: str = CONSUMER_DEPLOYMENT, has_node: bool = True
) -> dict[str, Any]:
    """Return a Deployment of pods that do nothing; without a node they stay pending, at no cost."""
    container = {
        "name": "main",
        "image": PAUSE,
        "imagePullPolicy": "Never",
        "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}},
    }
    where: dict[str, Any] = {} if has_node else {"nodeSelector": {"lagbench.io/none": "none"}}
    pod = {"containers": [container], "terminationGracePeriodSeconds": 1, **where}
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
