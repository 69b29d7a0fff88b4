"""The programs' image runs as its manifests ask: no root, nothing to write, no capability."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.adapters.kube.kube import Kube
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.manifests import RunTarget, consumer_for_run
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.embedded.broker import Broker
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually

NAMES, NAMESPACE = RunNames("image"), "lagbench-image"


@pytest.fixture(scope="module")
def kube(rig: Rig) -> Iterator[Kube]:
    """Provide a client of a namespace that goes with the module."""
    connected = Kube.from_kubeconfig(str(rig.kubeconfig), namespace=NAMESPACE)
    namespace = base_manifest("namespace", "Namespace")
    namespace["metadata"]["name"] = NAMESPACE
    connected.apply(namespace)
    yield connected
    connected.delete("Namespace", NAMESPACE)
    connected.close()


def test_a_program_starts_without_root_and_without_a_disk(
    rig: Rig, kube: Kube, program_image: str
) -> None:
    """The pod of the consumer's own restrictions prints the consumer's help and ends with 0."""
    template = base_manifest("consumer", "Deployment")["spec"]["template"]["spec"]
    container = template["containers"][0]
    del container["readinessProbe"], container["livenessProbe"]
    container.update(args=["--help"], image=program_image, imagePullPolicy="Never")
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "help", "namespace": NAMESPACE},
            "spec": {**template, "restartPolicy": "Never"},
        }
    )

    def phase() -> str:
        pod = kube.get("Pod", "help") or {}
        found: str = pod.get("status", {}).get("phase", "")
        return found if found in {"Succeeded", "Failed"} else ""

    ended = eventually(phase, "the end of the pod")

    assert ended == "Succeeded", kube.pod_logs("help")
    assert "lagbench.programs.consumer" in kube.pod_logs("help")


def test_the_consumers_join_through_the_nodes_address(
    rig: Rig, kube: Kube, program_image: str, rig_broker: Broker
) -> None:
    """Two pods of the committed Deployment become Ready, and they are the group's two members."""
    with KafkaAdmin(rig_broker.bootstrap_servers) as admin:
        topics = (NAMES.events_topic, NAMES.processed_topic, NAMES.telemetry_topic)
        admin.create_topics([TopicSpec(topic, 4, {}) for topic in topics])
    cluster = ClusterSettings(namespace=NAMESPACE, image=program_image)
    target = RunTarget(NAMES, rig_broker.bootstrap_servers, cluster)
    manifest = consumer_for_run(
        base_manifest("consumer", "Deployment"), target, ConsumerSettings(), replicas=2
    )
    manifest["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Never"
    kube.apply(manifest)
    apps = client.AppsV1Api(config.new_client_from_config(str(rig.kubeconfig)))

    def ready() -> Any:
        status = apps.read_namespaced_deployment("consumer", NAMESPACE).status
        return status.ready_replicas == 2

    eventually(ready, "two Ready consumers")

    with KafkaAdmin(rig_broker.bootstrap_servers) as admin:  # Ready is before joined
        eventually(
            lambda: len(admin.describe_group(NAMES.group).members) == 2,
            "two members",
        )
