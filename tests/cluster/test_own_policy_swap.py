"""Setup: the rig, a broker, consumers under a ScaledObject of their owner, a load that goes on.

An account has the rights of docs/own-dags.md alone. 1. The example Dag swaps three policies on the
real KEDA while a thread notes what is in force. 2. An HPA takes the ScaledObject's place, and goes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kube.kube import Kube, Manifest
from lagbench.core.scenario.run_names import RUN_ID_ANNOTATION
from lagbench.core.workload_state import is_ready
from lagbench.embedded.broker import Broker
from lagbench.errors import NotAllowed
from lagbench_airflow.operators.apply_scaling_policy import ApplyScalingPolicyOperator
from lagbench_airflow.triggers.condition import KeptClients
from lagbench_airflow.triggers.conditions import ReplicasAtCeiling
from tests.cluster.cluster_rehearsal import account_of, documented_role, kubectl
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually
from tests.integration import pod_manifests
from tests.integration.example_dag import run_example
from tests.integration.guarded_deployment import connections_to

pytestmark = pytest.mark.timeout(2700)

NAME, PLACE, PARTITIONS = "swapped", "swapped", 4
KEDAS_HPA = f"keda-hpa-{NAME}"
SCALED_OBJECT, HPA = "ScaledObject", "HorizontalPodAutoscaler"
LOAD_PER_SECOND = 20
# One pod takes a little more than the load, so that a period begins at rest.
CONSUMER = """
import signal, sys, time
from confluent_kafka import Consumer

stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
consumer = Consumer({
    "bootstrap.servers": "%s", "group.id": "swapped", "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": 500,
})
consumer.subscribe(["swapped"])
while not stopped:
    if consumer.poll(0.1) is not None:
        time.sleep(0.03)
consumer.close()
"""
PERIOD_MINUTES = 0.4  # a sync of the HPA controller, which takes 15 s, is in each period
WINDOWS: list[dict[str, int]] = [
    {},
    {"scaleUp": 0, "scaleDown": 300},
    {"scaleUp": 0, "scaleDown": 60},
]
"""Seconds of stabilization in the policies of the example, in their order."""
THRESHOLDS = ["500", "1k", "500"]
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Swapped:
    """The namespace as its administrator sees it, and the account that swaps."""

    kube: Kube
    rig: Rig
    account: Path
    connections: dict[str, str]

    def scaled_object(self) -> Manifest:
        """Return the ScaledObject."""
        return self.kube.get(SCALED_OBJECT, NAME) or {}

    def hpa(self, name: str = KEDAS_HPA) -> Manifest:
        """Return an HPA."""
        return self.kube.get(HPA, name) or {}

    def replicas(self) -> int:
        """Return what the Deployment is asked to have."""
        return int((self.kube.get("Deployment", NAME) or {})["spec"]["replicas"])

    def is_at_ceiling(self) -> bool:
        """Return what the condition of an event reads, with the account's rights."""
        with closing(KeptClients()) as clients:
            condition = ReplicasAtCeiling(scaled_object=NAME, namespace=PLACE)
            return condition.read(clients).is_met


@pytest.fixture(scope="module")
def swapped(
    rig: Rig, rig_broker: Broker, program_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Swapped]:
    """Provide the consumers under their owner's ScaledObject, at its ceiling of one pod."""
    servers = rig_broker.bootstrap_servers
    with KafkaAdmin(servers) as admin:
        admin.create_topics([TopicSpec(NAME, PARTITIONS)])
    kubectl(rig, "create", "namespace", PLACE)
    kubeconfig = tmp_path_factory.mktemp("swap") / "swap.kubeconfig"
    account_of(rig, PLACE, documented_role("own-dags.md"), kubeconfig)
    image = {"image": program_image, "imagePullPolicy": "Never"}
    consumers = pod_manifests.deployment(NAME, 1, CONSUMER % servers, **image)
    connections = connections_to(servers, kubeconfig)
    with (
        closing(Kube.from_kubeconfig(str(rig.kubeconfig), namespace=PLACE)) as kube,
        pytest.MonkeyPatch.context() as patch,
        load_on(servers),
    ):
        for name, value in connections.items():
            patch.setenv(name, value)
        for manifest in (consumers, theirs(servers)):
            assert kube.create(manifest)
        found = Swapped(kube, rig, kubeconfig, connections)
        eventually(lambda: is_ready(found.scaled_object()), "their policy is in force")
        eventually(found.is_at_ceiling, "its ceiling of one pod")
        yield found
        kubectl(rig, "delete", "namespace", PLACE, "--wait=false")


@contextmanager
def load_on(servers: str) -> Iterator[None]:
    """Send messages at a constant rate for the time of the block."""
    producer, is_over = Producer({"bootstrap.servers": servers}), threading.Event()

    def send() -> None:
        number = 0
        while not is_over.wait(1 / LOAD_PER_SECOND):
            producer.produce(NAME, b"order", partition=number % PARTITIONS)
            producer.poll(0)
            number += 1
        producer.flush(60)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        is_over.set()
        sender.join(timeout=90)


def theirs(servers: str) -> Manifest:
    """Return the owner's policy, with a field that no policy of the example has."""
    metadata = {"bootstrapServers": servers, "topic": NAME, "consumerGroup": NAME}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": SCALED_OBJECT,
        "metadata": {"name": NAME},
        "spec": {
            "scaleTargetRef": {"name": NAME},
            "minReplicaCount": 1,
            "maxReplicaCount": 1,
            "pollingInterval": 5,
            "advanced": {"restoreToOriginalReplicaCount": True},
            "triggers": [{"type": "kafka", "metadata": {**metadata, "lagThreshold": "50"}}],
        },
    }


@dataclass
class InForce:
    """What was in force after a task: a Ready ScaledObject, and the HPA that KEDA made of it."""

    scaled_object: Manifest
    hpa: Manifest
    was_at_ceiling: bool

    @property
    def windows(self) -> dict[str, int]:
        """Return the seconds of stabilization by direction; empty: the HPA has no behavior."""
        found = self.hpa["spec"].get("behavior") or {}
        return {side: rules["stabilizationWindowSeconds"] for side, rules in found.items()}

    @property
    def threshold(self) -> str:
        """Return the lag for each pod."""
        (metric,) = self.hpa["spec"]["metrics"]
        return str(metric["external"]["target"]["averageValue"])


@contextmanager
def noted(swapped: Swapped) -> Iterator[dict[str, InForce]]:
    """Note what is in force after each task, by the mark that KEDA copies to its HPA."""
    found, is_over = dict[str, InForce](), threading.Event()

    def mark(manifest: Manifest) -> str:
        metadata = manifest.get("metadata") or {}
        return str((metadata.get("annotations") or {}).get(RUN_ID_ANNOTATION, ""))

    def look() -> None:
        while not is_over.wait(_LOOK_SECONDS):
            policy, hpa = swapped.scaled_object(), swapped.hpa()
            if mark(policy) and mark(policy) == mark(hpa) and is_ready(policy):
                task = mark(policy).rpartition("/")[2]
                found[task] = InForce(policy, hpa, swapped.is_at_ceiling())

    looker = threading.Thread(target=look)
    looker.start()
    try:
        yield found
    finally:
        is_over.set()
        looker.join(timeout=60)


def test_the_real_keda_puts_each_policy_in_force(swapped: Swapped, tmp_path: Path) -> None:
    """Its HPA has the windows and the threshold of each one; the owner's policy comes back.

    The HPA controller follows: the floor of two pods, and at the end the ceiling of one.
    """
    before, hpa_before = swapped.scaled_object(), swapped.hpa()
    conf = dict.fromkeys(("topic", "group", "deployment", "scaled_object", "namespace"), NAME)

    with noted(swapped) as in_force:
        results = run_example(
            tmp_path,
            "compare_policies",
            swapped.connections,
            {**conf, "minutes": PERIOD_MINUTES},
        )

    applied = [in_force[f"apply_{number}"] for number in (1, 2, 3)]
    told = [results[f"apply_{number}", "return_value"] for number in (1, 2, 3)]
    measured = [results[f"measure_{number}", "return_value"] for number in (1, 2, 3)]
    generations = [one.scaled_object["metadata"]["generation"] for one in applied]
    assert [one.windows for one in applied] == WINDOWS
    assert [one.threshold for one in applied] == THRESHOLDS
    assert generations == [one["generation"] for one in told]
    assert before["metadata"]["generation"] < generations[0] < generations[1] < generations[2]
    assert {one["hpa"] for one in told} == {KEDAS_HPA}
    assert all(one["peak_lag"] > 0 for one in measured)
    assert measured[0]["mean_replicas"] > 1
    assert [one["mean_replicas"] for one in measured[1:]] == [2, 2]
    assert not any(one.was_at_ceiling for one in applied)

    assert swapped.scaled_object()["spec"] == before["spec"]
    assert swapped.hpa()["spec"] == hpa_before["spec"]
    eventually(lambda: swapped.replicas() == 1, "the owner's ceiling is followed again")
    eventually(swapped.is_at_ceiling, "the event of the ceiling")


def test_an_hpa_takes_the_place_of_a_scaled_object(swapped: Swapped) -> None:
    """KEDA's HPA goes with its ScaledObject, and comes back with it.

    The least rights do not allow it: nothing happens before the account has more.
    """
    before, written = swapped.scaled_object(), dict[str, Any]()
    with pytest.raises(NotAllowed):
        run("swap", written, policy="cpu-only")
    assert swapped.scaled_object()["metadata"]["generation"] == before["metadata"]["generation"]
    role = documented_role("own-dags.md")
    patch = '[{"op": "replace", "path": "/rules/%d/verbs", "value": %s}]'
    verbs = '["get", "create", "patch", "delete"]'
    for rule in (0, 1):
        change = (role["metadata"]["name"], "--type=json", "-p", patch % (rule, verbs))
        kubectl(swapped.rig, "-n", PLACE, "patch", "role", *change)

    run("swap", written, policy="cpu-only")
    hpa, kedas = swapped.hpa(NAME), (swapped.scaled_object(), swapped.hpa())
    run("restore", written, undo="swap")

    assert hpa["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 20
    assert hpa["spec"]["scaleTargetRef"]["name"] == NAME
    assert kedas == ({}, {})
    assert swapped.hpa(NAME) == {}
    assert swapped.scaled_object()["spec"] == before["spec"]
    assert is_ready(swapped.scaled_object())
    assert swapped.hpa()["spec"]["maxReplicas"] == 1


def run(task_id: str, written: dict[str, Any], **arguments: Any) -> None:
    """Execute a task of the operator, which reads what earlier ones have written."""
    ti = SimpleNamespace(
        dag_id="d",
        run_id="r",
        task_id=task_id,
        map_index=-1,
        xcom_pull=lambda *, task_ids, key: written.get(f"{task_ids} {key}"),
        xcom_push=lambda *, key, value: written.update({f"{task_id} {key}": value}),
    )
    store = SimpleNamespace(set=written.__setitem__, get=written.get)
    context: Any = {"ti": ti, "task_state_store": store}
    place: dict[str, Any] = {"scaled_object": NAME, "namespace": PLACE}
    ApplyScalingPolicyOperator(task_id=task_id, **place, **arguments).execute(context)
