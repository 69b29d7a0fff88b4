"""The sensors and the check for any Dag, on a real broker, localkube and Airflow."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
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
from tests.integration.localkube_process import running_localkube

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kube.kube import Kube
from lagbench.embedded.broker import Broker
from lagbench.embedded.ports import free_port
from lagbench.orchestrator import airflow_server
from lagbench.orchestrator.airflow_environment import airflow_home
from lagbench.project import PROJECT_ROOT
from lagbench_airflow.operators.rebalance_count_check import RebalanceCountCheckOperator
from lagbench_airflow.sensors.consumer_group import ConsumerGroupStableSensor
from lagbench_airflow.sensors.consumer_lag import ConsumerLagAboveSensor, ConsumerLagDrainedSensor
from lagbench_airflow.sensors.replicas import ReplicasSettledSensor

pytestmark = [pytest.mark.integration, pytest.mark.timeout(2700)]

EXAMPLE = PROJECT_ROOT / "docs" / "examples" / "guard_deployment.py"
TOPIC, GROUP = "orders", "billing"
PARTITIONS, MESSAGES = 4, 200
RUN_LIMIT_SECONDS = 1500
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
QUICK: dict[str, Any] = {"poke_interval": 0.2, "timeout": 180}
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
    assert producer.flush(120) == 0
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
    arguments["longest_gap"] = 120  # the machine may hold up who looks
    operator = RebalanceCountCheckOperator(task_id="watch", **{**arguments, **changes})
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(operator.execute({"ti": SimpleNamespace(xcom_push=push)}))
        except AirflowFailException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert first_look.wait(180)
    return thread, found


def test_a_rebalance_is_counted_while_it_is_watched(shop: Shop) -> None:
    """A pod that leaves breaks a claim of none; a quiet window holds it."""
    shop.scale(2)
    ConsumerGroupStableSensor(task_id="stable", members=2, hold=2, **LAG).execute({})

    quiet, result = watch()
    quiet.join(300)
    assert result[0]["rebalances"] == 0

    moved, failure = watch(window=600)  # it ends with the first rebalance
    shop.scale(1)
    moved.join(300)
    assert isinstance(failure[0], AirflowFailException)
    assert "1 rebalances were seen, 0 are allowed" in str(failure[0])


def test_a_group_that_does_not_exist_proves_nothing(shop: Shop) -> None:
    """A typo in its name is no quiet group."""
    thread, failure = watch(group="biling", window=0.5)
    thread.join(300)

    assert "had no member" in str(failure[0])


@dataclass(frozen=True)
class Airflow:
    """A real scheduler, triggerer and API server with the example in its folder of Dags."""

    server: airflow_server.AirflowServer
    state_dir: Path

    def start(self, conf: dict[str, str]) -> str:
        """Start a run through the REST API; returns its id."""
        token = airflow_server.api_token(self.server, self.state_dir)
        reply = httpx.post(
            f"{self.server.url}/api/v2/dags/guard_deployment/dagRuns",
            headers={"Authorization": f"Bearer {token}"},
            json={"logical_date": None, "conf": conf},
            timeout=180,
        )
        reply.raise_for_status()
        return str(reply.json()["dag_run_id"])

    def select(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """Read the database, which costs the API server nothing."""
        file = airflow_home(self.state_dir) / "airflow.db"
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=60)) as database:
            return database.execute(query, values).fetchall()

    def await_end(self, run_id: str) -> tuple[str, dict[str, set[str]]]:
        """Return the state of the run at its end, and the states that each task went through."""
        seen: dict[str, set[str]] = {}
        pause, gives_up_at = threading.Event(), time.monotonic() + RUN_LIMIT_SECONDS
        while time.monotonic() < gives_up_at:
            rows = "SELECT task_id, state FROM task_instance WHERE run_id = ?"
            for task_id, state in self.select(rows, run_id):
                seen.setdefault(task_id, set()).add(str(state))
            ((state,),) = self.select("SELECT state FROM dag_run WHERE run_id = ?", run_id)
            if state in {"success", "failed"}:
                return str(state), seen
            pause.wait(0.5)
        raise AssertionError(f"the run has not ended; its tasks: {seen}")

    def result(self, run_id: str, task_id: str) -> Any:
        """Return a task's result."""
        query = "SELECT value FROM xcom WHERE run_id = ? AND task_id = ? AND key = 'return_value'"
        ((value,),) = self.select(query, run_id, task_id)
        found = json.loads(value)
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
    # A busy machine: without this a task that is silent for long is given up.
    monkeypatch.setenv("AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT", "600")
    state_dir = tmp_path / "state"
    give_database(state_dir)
    server = airflow_server.start_server(state_dir, shop.connections, port=free_port())
    root = psutil.Process(server.pid)
    try:
        yield Airflow(server, state_dir)
    finally:
        family = [root, *root.children(recursive=True)]
        airflow_server.stop_server(state_dir)
        _, left = psutil.wait_procs(family, timeout=120)
        assert left == []


def test_the_example_guards_a_restart(shop: Shop, airflow: Airflow) -> None:
    """It drains, watches, restarts and settles, and its long waits are in the triggerer."""
    shop.scale(2)
    ConsumerGroupStableSensor(task_id="stable", members=2, hold=1, **LAG).execute({})
    before = _pods(shop)
    conf = {"topic": TOPIC, "group": GROUP, "deployment": GROUP}

    run_id = airflow.start(conf)
    state, states = airflow.await_end(run_id)

    assert state == "success", states
    assert "deferred" in states["rebalances_during"]
    assert "deferred" in states["replicas_settled"]
    assert not before & _pods(shop)
    watched = airflow.result(run_id, "rebalances_during")
    assert 1 <= watched["rebalances"] <= watched["max_rebalances"]
    assert airflow.result(run_id, "lag_drained_after")["total_lag"] == 0


def _pods(shop: Shop) -> set[str]:
    found = shop.kube.list("Pod", label_selector=f"app={GROUP}")
    return {str(pod["metadata"]["uid"]) for pod in found}
