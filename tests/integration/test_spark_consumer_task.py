"""The consumer on Spark as a task: a real broker, real pods of localkube, and Spark."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.integration import pod_manifests
from tests.integration.localkube_process import running_localkube

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kafka.kafka_lag import open_admin
from lagbench.adapters.kube.kube import Kube
from lagbench.embedded.broker import Broker
from lagbench.shared_with_spark.event import EVENT_BYTES
from lagbench_airflow.hooks import kube as hook
from lagbench_airflow.operators.run_spark_consumer import RunSparkConsumerOperator, WorkedOff
from lagbench_airflow.triggers.condition import KeptClients, Reading

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

TOPIC, GROUP, PARTITIONS, MESSAGES = "orders-of-spark", "billing", 2, 2_000


def test_a_topic_is_worked_off_and_nothing_stays(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All messages are read, the log has the driver's lines, and no pod and no topic is left."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    with KafkaAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([TopicSpec(TOPIC, PARTITIONS)])
        for number in range(MESSAGES):
            producer.produce(TOPIC, bytes(EVENT_BYTES), partition=number % PARTITIONS)
        assert producer.flush(120) == 0
        topics = admin.topic_names()
        with running_localkube(tmp_path / "localkube") as localkube:
            lines = worked_off(broker, localkube.kubeconfig, tmp_path, monkeypatch)
            namespace = pod_manifests.NAMESPACE
            with closing(Kube.from_kubeconfig(localkube.kubeconfig, namespace=namespace)) as kube:
                kinds = ("Pod", "Deployment", "Service", "Secret")
                assert [kube.list(kind) for kind in kinds] == [[]] * len(kinds)
        assert admin.topic_names() == topics
    assert any("warm workers" in line for line in lines)
    with closing(open_admin(broker.bootstrap_servers)) as client:
        offsets = client.offsets(GROUP, TOPIC).values()
    assert [at.committed for at in offsets] == [MESSAGES // PARTITIONS] * PARTITIONS


def worked_off(
    broker: Broker, kubeconfig: Path, state_dir: Path, patch: pytest.MonkeyPatch
) -> list[str]:
    """Execute the task on that cluster as on the embedded bench; return the driver's lines."""
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    kubernetes = {"kube_config_path": str(kubeconfig), "namespace": pod_manifests.NAMESPACE}
    for kind, extra in (("kafka", kafka), ("kubernetes", kubernetes)):
        found = json.dumps({"conn_type": kind, "extra": extra})
        patch.setenv(f"AIRFLOW_CONN_{kind.upper()}_DEFAULT", found)
    patch.setenv("LAGBENCH_STATE_DIR", str(state_dir))
    access = hook.EmbeddedAccess(str(kubeconfig), {})
    patch.setattr(hook, "embedded_access", lambda *_: access)
    lines: list[str] = []
    read = WorkedOff.read

    def kept(self: WorkedOff, clients: KeptClients) -> Reading:
        reading = read(self, clients)
        lines.extend(reading.lines)
        return reading

    patch.setattr(WorkedOff, "read", kept)
    task = RunSparkConsumerOperator(
        task_id="run",
        topic=TOPIC,
        group=GROUP,
        replicas=1,
        hold=2,
        poke_interval=1,
        timeout=300,
        deferrable=False,
    )
    context: Any = {"ti": SimpleNamespace(dag_id="d", run_id="r", map_index=-1)}
    assert task.execute(context)["total_lag"] == 0
    return lines
