"""A Deployment of consumers that nobody of the bench started, and an Airflow that guards it.

The test of the example Dag and its picture use them.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from confluent_kafka import Producer
from tests.fakes.migrated_database import give_database
from tests.integration import pod_manifests
from tests.integration.localkube_process import running_localkube

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kube.kube import Kube
from lagbench.embedded.broker import Broker
from lagbench.embedded.child_server import free_port
from lagbench.orchestrator import airflow_server
from lagbench.orchestrator.airflow_environment import airflow_home
from lagbench.project import PROJECT_ROOT
from lagbench_airflow.sensors.consumer_group import ConsumerGroupStableSensor
from lagbench_airflow.sensors.replicas import ReplicasSettledSensor

EXAMPLE = PROJECT_ROOT / "docs" / "examples" / "guard_deployment.py"
TOPIC, GROUP = "orders", "billing"
CONF = {"topic": TOPIC, "group": GROUP, "deployment": GROUP}
"""Of a run of the example."""
PARTITIONS, MESSAGES = 4, 200
RUN_LIMIT_SECONDS = 1500
# A machine that does other work as well needs several times the usual minute.
START_LIMIT_SECONDS = 900
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

    def await_members(self, members: int, *, hold: float = 0) -> Any:
        """Wait until the group is stable with that many members; return the last reading."""
        sensor = ConsumerGroupStableSensor(task_id="stable", members=members, hold=hold, **LAG)
        return sensor.execute({})


@contextmanager
def running_shop(broker: Broker, folder: Path) -> Iterator[Shop]:
    """Provide the shop on a localkube of its own."""
    with running_localkube(folder) as localkube:
        kube = Kube.from_kubeconfig(localkube.kubeconfig, namespace=pod_manifests.NAMESPACE)
        with closing(kube), shop_on(kube, broker, localkube.kubeconfig) as shop:
            yield shop


@contextmanager
def shop_on(
    kube: Kube, broker: Broker, airflows_kubeconfig: Path, **container: Any
) -> Iterator[Shop]:
    """Provide the shop, with its connections in the environment as a user of Airflow has them.

    :param container: fields of the consumers' container.
    """
    with KafkaAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([TopicSpec(TOPIC, PARTITIONS)])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(MESSAGES):
        producer.produce(TOPIC, b"order", partition=number % PARTITIONS)
    assert producer.flush(120) == 0
    connections = connections_to(broker.bootstrap_servers, airflows_kubeconfig)
    script = CONSUMER % broker.bootstrap_servers
    manifest = pod_manifests.deployment(GROUP, 0, script, **container)
    manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 20
    kube.apply(manifest)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in connections.items():
            patch.setenv(name, value)
        yield Shop(kube, connections)


def connections_to(servers: str, kubeconfig: Path, **settings: str) -> dict[str, str]:
    """Return the variables of Airflow's connections to a broker and a cluster, with its settings.

    Without a namespace it is the default one.
    """
    kafka = {"bootstrap.servers": servers}
    namespace = {"namespace": pod_manifests.NAMESPACE}
    kubernetes = {"kube_config_path": str(kubeconfig), **namespace, **settings}
    return {
        f"AIRFLOW_CONN_{kind.upper()}_DEFAULT": json.dumps({"conn_type": kind, "extra": extra})
        for kind, extra in (("kafka", kafka), ("kubernetes", kubernetes))
    }


def settled(**bounds: int) -> Any:
    """Wait until the Deployment has settled."""
    return ReplicasSettledSensor(
        task_id="settled", deployment=GROUP, namespace=pod_manifests.NAMESPACE, **QUICK, **bounds
    ).execute({})


@dataclass(frozen=True)
class Airflow:
    """A real scheduler, triggerer and API server with the example in its folder of Dags."""

    server: airflow_server.AirflowServer
    state_dir: Path

    def start(self, conf: dict[str, str], dag: str = "guard_deployment") -> str:
        """Start a run through the REST API; returns its id."""
        run = {"logical_date": None, "conf": conf}
        return str(self.ask("POST", f"{dag}/dagRuns", run)["dag_run_id"])

    def ask(self, method: str, place: str, body: dict[str, Any]) -> Any:
        """Send a request to the REST API as the administrator; return the answer."""
        token = airflow_server.api_token(self.server, self.state_dir)
        reply = httpx.request(
            method,
            f"{self.server.url}/api/v2/dags/{place}",
            headers={"Authorization": f"Bearer {token}"},
            json=body,
            timeout=180,
        )
        return reply.raise_for_status().json()

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


@contextmanager
def running_airflow(connections: dict[str, str], folder: Path) -> Iterator[Airflow]:
    """Start Airflow in a home of its own; stop it with everything that it started."""
    dags, state_dir = folder / "dags", folder / "state"
    dags.mkdir()
    for source in (EXAMPLE, PROJECT_ROOT / "dags" / "scenario_run.py"):
        shutil.copy(source, dags)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AIRFLOW_HOME", "AIRFLOW__CORE__PLUGINS_FOLDER"):
            patch.delenv(name, raising=False)
        patch.delenv("AIRFLOW__CORE__UNIT_TEST_MODE", raising=False)
        patch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(dags))
        # A busy machine: without this a task that is silent for long is given up.
        patch.setenv("AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT", "600")
        give_database(state_dir)
        patch.setattr(airflow_server, "READY_LIMIT_SECONDS", START_LIMIT_SECONDS)
        server = airflow_server.start_server(state_dir, connections, port=free_port())
        root = psutil.Process(server.pid)
        try:
            yield Airflow(server, state_dir)
        finally:
            family = [root, *root.children(recursive=True)]
            airflow_server.stop_server(state_dir)
            _, left = psutil.wait_procs(family, timeout=120)
            assert left == []
