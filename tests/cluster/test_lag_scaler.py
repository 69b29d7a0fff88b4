"""The real KEDA asks the lag scaler, and the real HPA follows its answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kubernetes import client, config

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kube.kube import Kube
from lagbench.core.scenario.run_names import NAMESPACE
from lagbench.embedded.broker import Broker
from tests.cluster.rig.images import PAUSE
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually
from tests.integration.lag_scaler.scaler_process import ScalerProcess, running_scaler

TOPIC, GROUP, PARTITIONS, LAG_EACH = "orders", "enrich-orders", 4, 500


@pytest.fixture
def broker(rig: Rig, tmp_path: Path) -> Any:
    """Provide a broker in the rig's network with a group that lags on every partition."""
    running = Broker(tmp_path / "broker")
    running.start()
    with KafkaAdmin(running.bootstrap_servers) as admin:
        admin.create_topics([TopicSpec(TOPIC, PARTITIONS, {})])
    producer = Producer({"bootstrap.servers": running.bootstrap_servers})
    for number in range(PARTITIONS * LAG_EACH):
        producer.produce(TOPIC, b"x", partition=number % PARTITIONS)
    assert producer.flush(120) == 0
    commit(running, 0)
    yield running
    running.stop()


@pytest.fixture
def kube(rig: Rig) -> Iterator[Kube]:
    """Provide the namespace; what the test has there goes, the ScaledObject first."""
    connected = Kube.from_kubeconfig(str(rig.kubeconfig))
    connected.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield connected
    connected.delete("ScaledObject", "orders")
    eventually(lambda: connected.get("ScaledObject", "orders") is None, "its deletion")
    connected.delete("Deployment", "orders")
    connected.close()


def commit(broker: Broker, offset: int) -> None:
    """Commit the same offset on every partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": GROUP})
    places = [TopicPartition(TOPIC, partition, offset) for partition in range(PARTITIONS)]

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=places, asynchronous=False)
        except KafkaException:  # the coordinator of a new broker takes its time
            return False
        return True

    eventually(is_committed, f"commits at {offset}")
    consumer.close()


def scaled_object(scaler: ScalerProcess, broker: Broker) -> dict[str, Any]:
    """Return a ScaledObject on the lag scaler that moves in one step both ways."""
    at_once = {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}],
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "orders", "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"name": "orders"},
            "pollingInterval": 5,
            "minReplicaCount": 1,
            "maxReplicaCount": 10,
            "advanced": {
                "horizontalPodAutoscalerConfig": {
                    "behavior": {"scaleUp": at_once, "scaleDown": at_once}
                }
            },
            "triggers": [
                {
                    "type": "external",
                    "metadata": {
                        "scalerAddress": scaler.address,
                        "bootstrapServers": broker.bootstrap_servers,
                        "topic": TOPIC,
                        "consumerGroup": GROUP,
                        "lagThreshold": "100",
                        "sustainSeconds": "4",
                        "samplingInterval": "1",
                        "windowSize": "30",
                    },
                }
            ],
        },
    }


def test_real_keda_scales_on_persistent_lag(
    rig: Rig, broker: Broker, kube: Kube, tmp_path: Path
) -> None:
    """Lag of 20 thresholds on 4 partitions gives 4 pods, not 5; a drained group gives the floor."""
    apps = client.AppsV1Api(config.new_client_from_config(str(rig.kubeconfig)))
    apps.create_namespaced_deployment(NAMESPACE, deployment())

    def replicas() -> int:
        return int(apps.read_namespaced_deployment("orders", NAMESPACE).spec.replicas)

    with running_scaler(tmp_path) as scaler:
        kube.apply(scaled_object(scaler, broker))
        eventually(lambda: replicas() == PARTITIONS, "one pod per partition")

        def is_active() -> bool:
            status = (kube.get("ScaledObject", "orders") or {}).get("status") or {}
            conditions = {c["type"]: c["status"] for c in status.get("conditions") or ()}
            return conditions.get("Active") == "True"

        eventually(is_active, "KEDA's own look, which follows another clock than the HPA's")

        commit(broker, LAG_EACH)
        eventually(lambda: replicas() == 1, "the floor")
        served = scaler.metrics

    assert 'method="GetMetrics"' in served


def deployment() -> dict[str, Any]:
    """Return pods that do nothing."""
    container = {"name": "main", "image": PAUSE, "imagePullPolicy": "Never"}
    labels = {"app": "orders"}
    return {
        "metadata": {"name": "orders"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
