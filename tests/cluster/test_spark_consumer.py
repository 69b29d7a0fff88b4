"""Setup: the rig with the overlay ``ci``, a broker, the image of Spark.

1. One rehearsal of a consumer on Spark with the runner's rights: one worker, which KEDA doubles.
2. Read accounting, reaction and batches. 3. Look for anything left. 4. The example Dag works a
topic off with the same rights.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kafka.kafka_lag import open_admin
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.workloads import WORKLOADS
from lagbench.core.scenario.run_names import NAMESPACE, RUN_ID_LABEL
from lagbench.embedded.broker import Broker
from lagbench.shared_with_spark.event import EVENT_BYTES
from tests.cluster.cluster_rehearsal import ClusterRehearsal, kubectl, left_behind
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually
from tests.integration.example_dag import run_example
from tests.integration.guarded_deployment import connections_to

pytestmark = pytest.mark.timeout(2700)

TOPIC, GROUP, PARTITIONS, MESSAGES = "orders-of-spark", "orders-on-spark", 2, 2_000


@pytest.fixture(scope="module")
def exit_code(home: ClusterRehearsal, spark_image: str) -> int:
    """Run once for all tests of the module."""
    return home.finish(home.start_run(options=home.target_options, is_on_spark=True))


def test_every_message_is_accounted_for(home: ClusterRehearsal, exit_code: int) -> None:
    """The ledger of the tasks on real pods has each message once."""
    for name in ("lost", "duplicated", "reordered", "zombies"):
        assert home.slo(name)["status"] == home.unfailed, home.output()
    assert home.read("manifest.json")["fidelity"] == "kubernetes"
    accounting = home.read("accounting.json")
    assert accounting["produced_acked"] == accounting["processed_distinct"] > 0
    assert accounting["lost"] == accounting["duplicated"] == 0


def test_keda_adds_a_worker_on_published_lag(home: ClusterRehearsal, exit_code: int) -> None:
    """From one worker to two and back, and the second one finished tasks: the chain ends there."""
    measures = home.read("measures.json")

    assert measures["scaling"]["max_replicas"] == 2
    assert measures["end_state"]["is_at_floor"]
    assert measures["reaction"]["is_complete"], measures["reaction"]["reason"]


def test_batches_and_publishing_are_measured(home: ClusterRehearsal, exit_code: int) -> None:
    """The driver ran once in its pod, and reported its batches and what it published."""
    spark: dict[str, Any] = home.read("measures.json")["spark"]

    assert spark["driver_starts"] == 1
    assert spark["batches"] > 0
    assert spark["publish_delay_seconds"] is not None


def test_nothing_is_left(
    rig: Rig, rig_broker: Broker, home: ClusterRehearsal, exit_code: int
) -> None:
    """No pod, Service, Lease, topic, group or process of the run stays behind, and no Secret."""
    assert left_behind(rig, rig_broker, home) == []
    await_no_secret(rig)


def test_the_example_works_a_topic_off(
    rig: Rig, rig_broker: Broker, home: ClusterRehearsal, spark_image: str, tmp_path: Path
) -> None:
    """All messages are read, the task's log has the driver's lines, and nothing of it is left."""
    servers = rig_broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers})
    settings = {"namespace": NAMESPACE, "lagbench_storage_class": "none"}
    connections = connections_to(servers, home.kubeconfig, **settings)
    with KafkaAdmin(servers) as admin:
        admin.create_topics([TopicSpec(TOPIC, PARTITIONS)])
        for number in range(MESSAGES):
            producer.produce(TOPIC, bytes(EVENT_BYTES), partition=number % PARTITIONS)
        assert producer.flush(120) == 0
        topics = admin.topic_names()
        conf = {"topic": TOPIC, "group": GROUP}
        results = run_example(tmp_path, "work_off_with_spark", connections, conf)
        assert admin.topic_names() == topics

    assert results["consume", "return_value"]["total_lag"] == 0
    assert "warm workers" in (tmp_path / "dag.log").read_text()
    with closing(open_admin(servers)) as client:
        offsets = client.offsets(GROUP, TOPIC).values()
    assert [at.committed for at in offsets] == [MESSAGES // PARTITIONS] * PARTITIONS
    with closing(Kube.from_kubeconfig(str(rig.kubeconfig), namespace=NAMESPACE)) as kube:
        kinds = ("Pod", *WORKLOADS, "PodDisruptionBudget")
        assert not [kind for kind in kinds if kube.list(kind, label_selector=RUN_ID_LABEL)]
    await_no_secret(rig)


def await_no_secret(rig: Rig) -> None:
    """Wait until the cluster has collected the Secret of Spark's pods with its owner."""
    secrets = ("-n", NAMESPACE, "get", "secrets", "-o=name", f"-l={RUN_ID_LABEL}")
    eventually(lambda: not kubectl(rig, *secrets), "the Secret ends with its owner")
