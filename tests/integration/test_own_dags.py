"""The sensors and the check for any Dag, on a real broker, localkube and Airflow."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import psutil
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout
from confluent_kafka import Producer
from tests.fakes.migrated_database import give_database
from tests.integration import pod_manifests
from tests.integration.localkube_process import eventually, running_localkube

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kube.kube import Kube
from lagbench.embedded.broker import Broker
from lagbench.orchestrator import airflow_server
from lagbench.orchestrator.airflow_environment import airflow_home
from lagbench.project import PROJECT_ROOT
from lagbench_airflow.operators.rebalance_count_check import RebalanceCountCheckOperator
from lagbench_airflow.sensors.consumer_group import ConsumerGroupStableSensor
from lagbench_airflow.sensors.consumer_lag import ConsumerLagAboveSensor, ConsumerLagDrainedSensor
from lagbench_airflow.sensors.replicas import ReplicasSettledSensor

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

EXAMPLE = PROJECT_ROOT / "docs" / "examples" / "guard_deployment.py"
TOPIC, GROUP = "orders", "billing"
PARTITIONS, MESSAGES = 4, 200
CONSUMER = """
import signal, sys
from confluent_kafka import Consumer

stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
consumer = Consumer({
    "bootstrap.servers": "%s", "group.id": "billing", "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": 500, "session.timeout.ms": 10000,
})
consumer.subscribe(["orders"])
while not stopped:
    consumer.poll(0.1)
consumer.close()
"""
QUICK: dict[str, Any] = {"poke_interval": 0.2, "timeout": 60}
LAG: dict[str, Any] = {"topic": TOPIC, "group": GROUP, **QUICK}


@dataclass(frozen=True)
class Shop:
    """A topic with messages, and a Deployment of consumers that nobody of the bench started."""

    kube: Kube
    connections: dict[str, str]

    def scale(self, replicas: int) -> None:
        """Set the replicas and wait until they are there."""
        self.kube.scale(GROUP, replicas)
        settled(min_replicas=replicas, max_replicas=replicas)


@pytest.fixture(scope="module")
def shop(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Provide the shop, with its connections in the environment as a user of Airflow has them."""
    with KafkaAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([TopicSpec(TOPIC, PARTITIONS)])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(MESSAGES):
        producer.produce(TOPIC, b"order", partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    with running_localkube(tmp_path_factory.mktemp("localkube")) as localkube:
        connections = {
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(
                {
                    "conn_type": "kafka",
                    "extra": {"bootstrap.servers": broker.bootstrap_servers},
                }
            ),
            "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps(
                {
                    "conn_type": "kubernetes",
                    "extra": {
                        "kube_config_path": str(localkube.kubeconfig),
                        "namespace": pod_manifests.NAMESPACE,
                    },
                }
            ),
        }
        kube = Kube.from_kubeconfig(localkube.kubeconfig, namespace=pod_manifests.NAMESPACE)
        manifest = pod_manifests.deployment(GROUP, 0, CONSUMER % broker.bootstrap_servers)
        manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 20
        kube.apply(manifest)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in connections.items():
                patch.setenv(name, value)
            yield Shop(kube, connections)
        kube.close()


def settled(**bounds: int) -> Any:
    """Wait until the Deployment has settled."""
    return ReplicasSettledSensor(
        task_id="settled", deployment=GROUP, namespace=pod_manifests.NAMESPACE, **QUICK, **bounds
    ).execute({})


def test_lag_without_a_consumer_is_above(shop: Shop) -> None:
    """A group that never committed has all kept messages before it, in each partition."""
    above = ConsumerLagAboveSensor(task_id="above", threshold_records=MESSAGES - 1, **LAG)
    assert above.execute({}) == {
        "total_lag": MESSAGES,
        "largest_partition_lag": MESSAGES // PARTITIONS,
    }

    not_drained = {**LAG, "timeout": 0.1}
    with pytest.raises(AirflowSensorTimeout, match=f"'total_lag': {MESSAGES}"):
        ConsumerLagDrainedSensor(task_id="drained", **not_drained).execute({})


def test_consumers_drain_the_lag_and_settle(shop: Shop) -> None:
    """Pods, group and lag come to rest, and each sensor says with what."""
    shop.scale(2)

    stable = ConsumerGroupStableSensor(task_id="stable", members=2, hold=0.5, **LAG).execute({})
    drained = ConsumerLagDrainedSensor(task_id="drained", hold=0.5, **LAG).execute({})

    assert (stable["state"], stable["owned_partitions"]) == ("STABLE", PARTITIONS)
    assert drained == {"total_lag": 0, "largest_partition_lag": 0}
    assert settled()["existing"] == 2


def watch(**changes: Any) -> Any:
    """Watch the group in a thread until its window ends; return the result or the failure."""
    first_look = threading.Event()

    def push(*, key: str, value: float) -> None:
        first_look.set()

    arguments = {"group": GROUP, "window": 5, "max_rebalances": 0, "poke_interval": 0.2}
    operator = RebalanceCountCheckOperator(task_id="watch", **{**arguments, **changes})
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(operator.execute({"ti": SimpleNamespace(xcom_push=push)}))
        except AirflowFailException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert first_look.wait(60)
    return thread, found


def test_a_rebalance_is_counted_while_it_is_watched(shop: Shop) -> None:
    """A pod that leaves breaks a claim of none; a quiet window holds it."""
    shop.scale(2)
    ConsumerGroupStableSensor(task_id="stable", members=2, hold=2, **LAG).execute({})

    quiet, result = watch()
    quiet.join(60)
    assert result[0]["rebalances"] == 0

    moved, failure = watch(window=60)
    shop.scale(1)
    moved.join(60)
    assert isinstance(failure[0], AirflowFailException)
    assert "1 rebalances were seen, 0 are allowed" in str(failure[0])


def test_a_group_that_does_not_exist_proves_nothing(shop: Shop) -> None:
    """A typo in its name is no quiet group."""
    thread, failure = watch(group="biling", window=0.5)
    thread.join(60)

    assert "had no member" in str(failure[0])


@dataclass(frozen=True)
class Airflow:
    """A real scheduler, triggerer and API server with the example in its folder of Dags."""

    url: str
    token: str

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the REST API."""
        reply = httpx.request(
            method,
            f"{self.url}/api/v2/dags/guard_deployment{path}",
            headers={"Authorization": f"Bearer {self.token}"},
            json=body,
            timeout=60,
        )
        reply.raise_for_status()
        return reply.json()

    def run(self, conf: dict[str, str]) -> tuple[str, dict[str, set[str]], str]:
        """Run the Dag to its end: its state, each task's states on the way, and its id."""
        begun = self.call("POST", "/dagRuns", {"logical_date": None, "conf": conf})
        run_id, states = begun["dag_run_id"], dict[str, set[str]]()

        def ended() -> str | None:
            listed = self.call("GET", f"/dagRuns/{run_id}/taskInstances")
            for task in listed["task_instances"]:
                states.setdefault(task["task_id"], set()).add(str(task["state"]))
            state = str(self.call("GET", f"/dagRuns/{run_id}")["state"])
            return state if state in ("success", "failed") else None

        return eventually(ended, "the end of the run", within_seconds=600) or "", states, run_id

    def result(self, run_id: str, task_id: str) -> Any:
        """Return a task's result."""
        path = f"/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        found = self.call("GET", path)["value"]
        return json.loads(found) if isinstance(found, str) else found


@pytest.fixture
def airflow(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Airflow]:
    """Start Airflow in a home of its own; stop it with everything that it started."""
    for name in ("AIRFLOW_HOME", "AIRFLOW__CORE__PLUGINS_FOLDER", "AIRFLOW__CORE__UNIT_TEST_MODE"):
        monkeypatch.delenv(name, raising=False)
    dags = tmp_path / "dags"
    dags.mkdir()
    for source in (EXAMPLE, PROJECT_ROOT / "dags" / "scenario_run.py"):
        shutil.copy(source, dags)
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(dags))
    state_dir = tmp_path / "state"
    give_database(state_dir)
    server = airflow_server.start_server(state_dir, shop.connections, port=_free_port())
    root = psutil.Process(server.pid)
    try:
        yield Airflow(server.url, airflow_server.api_token(server, state_dir))
    finally:
        family = [root, *root.children(recursive=True)]
        airflow_server.stop_server(state_dir)
        _, left = psutil.wait_procs(family, timeout=30)
        shutil.copy(airflow_home(state_dir) / "standalone.log", tmp_path)
        assert left == []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_example_guards_a_restart(shop: Shop, airflow: Airflow) -> None:
    """It drains, watches, restarts and settles, and its long waits are in the triggerer."""
    shop.scale(2)
    ConsumerGroupStableSensor(task_id="stable", members=2, hold=1, **LAG).execute({})
    before = _pods(shop)
    conf = {"topic": TOPIC, "group": GROUP, "deployment": GROUP}

    state, states, run_id = airflow.run(conf)

    assert (state, {task for task, seen in states.items() if "success" not in seen}) == (
        "success",
        set(),
    )
    assert "deferred" in states["rebalances_during"]
    assert "deferred" in states["replicas_settled"]
    assert not before & _pods(shop)
    watched = airflow.result(run_id, "rebalances_during")
    assert 1 <= watched["rebalances"] <= watched["max_rebalances"]
    assert airflow.result(run_id, "lag_drained_after")["total_lag"] == 0


def _pods(shop: Shop) -> set[str]:
    found = shop.kube.list("Pod", label_selector=f"app={GROUP}")
    return {str(pod["metadata"]["uid"]) for pod in found}
