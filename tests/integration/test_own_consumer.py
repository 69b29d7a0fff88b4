"""A user's own Deployment on localkube and a real broker, at each level of accounting."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from tests.eventually import eventually
from tests.integration.consumer_group import shares_out
from tests.integration.producer_target import ProducerTarget, read_all, value_of
from tests.integration.secured_broker import PASSWORD, secured_broker

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kafka.kafka_lag import open_admin, read_group_lag
from lagbench.adapters.kube.kube import Kube
from lagbench.core.cluster.manifests import RunTarget
from lagbench.core.cluster.own_deployment import KafkaSettings, own_deployment
from lagbench.core.cluster.own_process import own_consumer_as_process
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.embedded.broker import Broker
from lagbench.embedded.example_consumers import BUILDS
from lagbench.errors import NotReady
from lagbench.project import PROJECT_ROOT
from lagbench.shared_with_spark.event import decode_identities, identity_of
from lagbench_spark.decode import decode_ledger
from pod_program.kafka_settings import as_lines

pytestmark = pytest.mark.slow
PARTITIONS, MESSAGES = 4, 200
EXAMPLES = PROJECT_ROOT / "include/catalog/consumers"
DATA = PROJECT_ROOT / "tests/data/own_consumers"
ENV = {"KAFKA_BROKERS": "{bootstrap_servers}", "ORDERS_TOPIC": "{topic}", "GROUP_ID": "{group}"}
OUTPUT_ENV = {**ENV, "PRICES_TOPIC": "{output_topic}", "CLIENT_ID": "{pod}"}
PLAIN = KafkaSettings()
LOGIN = {
    "PROTOCOL": "{kafka.security.protocol}",
    "MECHANISM": "{kafka.sasl.mechanism}",
    "USER_NAME": "{kafka.sasl.username}",
    "USER_PASSWORD": "{kafka.sasl.password}",
    "CA_FILE": "{kafka.ssl.ca.location}",
    "CERTIFICATE_FILE": "{kafka.ssl.certificate.location}",
    "KEY_FILE": "{kafka.ssl.key.location}",
    "SETTINGS_FILE": "{kafka_config}",
}
SECURED = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: orders}
spec:
  template:
    spec:
      containers: [{name: orders, image: orders, command: [python, secured_consumer.py]}]
"""
LEDGER_WRITER = """
apiVersion: v1
kind: ConfigMap
metadata: {name: orders-config}
data: {orders.yaml: "currency: EUR\\n"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: orders}
spec:
  template:
    spec:
      initContainers: [{name: migrate, image: migrate}]
      containers:
        - name: orders
          image: orders
          command: [python, ledger_writer.py]
          env:
            - {name: CONFIG, value: /etc/orders/orders.yaml}
            - name: DATABASE_PASSWORD
              valueFrom: {secretKeyRef: {name: db, key: password}}
          volumeMounts: [{name: config, mountPath: /etc/orders}]
        - {name: sidecar, image: proxy}
      volumes: [{name: config, configMap: {name: orders-config}}]
"""


def make_topics(admin: KafkaAdmin, names: RunNames) -> None:
    """Create the topics of a run."""
    admin.create_topics(
        [
            TopicSpec(names.events_topic, PARTITIONS, {}),
            TopicSpec(names.processed_topic, 2, {"message.timestamp.type": "LogAppendTime"}),
            TopicSpec(f"{names.events_topic}.telemetry", 1, {}),
        ]
    )


def offer(admin: KafkaAdmin, broker: Broker, names: RunNames, folder: Path) -> ProducerTarget:
    """Offer 200 messages of a file, which name the run, to two members that share the topic.

    Who joins later moves partitions, and a consumer may do again what it had not committed.
    """
    eventually(
        lambda: shares_out(admin, names.group, 2, PARTITIONS), "two members that share the topic"
    )
    samples = folder / "orders.jsonl"
    samples.write_text('{"order": "o-1", "total_cents": 5}\n')
    target = ProducerTarget(broker.bootstrap_servers, names.events_topic)
    done = target.run(
        f"--rate={MESSAGES}",
        "--duration-seconds=1",
        f"--run-id={names.run_id}",
        f"--partitions={PARTITIONS}",
        f"--payload-file={samples}",
    )
    assert done.returncode == 0, done.stderr
    return target


def start(
    kube: Kube,
    bootstrap_servers: str,
    names: RunNames,
    manifest: str,
    folder: Path,
    *,
    kafka: KafkaSettings = PLAIN,
    **settings: Any,
) -> None:
    """Start two pods of the user's Deployment, as a run does."""
    consumer = ConsumerSettings.model_validate(
        {"kind": "own", "manifest": manifest, "env": ENV, **settings}
    )
    own = own_deployment(list(yaml.safe_load_all(manifest)), where="manifest")
    found = own_consumer_as_process(
        own,
        RunTarget(names, bootstrap_servers),
        consumer,
        replicas=2,
        environment={"DATABASE_PASSWORD": "correct horse"},
        folder=str(folder),
        kafka=kafka,
    )
    for one in (*found.beside, found.workload):
        kube.apply(one)


def await_drained(broker: Broker, names: RunNames) -> None:
    """Wait until the group's committed offsets are at the log's end."""
    with closing(open_admin(broker.bootstrap_servers)) as admin:

        def is_drained() -> bool:
            try:
                places = read_group_lag(admin, names.group, names.events_topic).values()
            except NotReady:  # the broker has no coordinator for a new group yet
                return False
            return all((place.committed or 0) == place.end for place in places)

        eventually(is_drained, "every message committed")


def written_seqs(target: ProducerTarget, names: RunNames) -> list[int]:
    """Return the number of each message that has a record in the output topic, sorted.

    It waits until there are as many records as messages: a consumer that commits automatically
    may have committed a message whose result is not delivered yet.
    """

    def seqs() -> list[int] | None:
        written = read_all(target, names.processed_topic)
        identities = b"".join(identity_of(m.headers(), names.run_id) or b"" for m in written)
        found: list[int] = sorted(decode_identities(identities)["seq"].tolist())
        return found if len(found) >= MESSAGES else None

    return eventually(seqs, "a record of each message")


@pytest.mark.parametrize(
    "example",
    [
        "as-documented",
        pytest.param("after-advice", marks=pytest.mark.smoke),
        "by-advice",
        "by-advice commit sigterm revoke assignor",
    ],
)
def test_the_examples_pass_the_identity_on(
    example: str, kube: Kube, broker: Broker, kafka_admin: KafkaAdmin, tmp_path: Path
) -> None:
    """Each message has one record in the output topic, with the identity of the run."""
    name, _, advice = example.partition(" ")
    names = RunNames(f"own-{name}-{len(advice)}")
    make_topics(kafka_admin, names)
    manifest = (EXAMPLES / f"{name}.yaml").read_text()

    start(
        kube,
        broker.bootstrap_servers,
        names,
        manifest,
        EXAMPLES,
        accounting="output",
        env={**OUTPUT_ENV, "ADVICE": advice},
    )
    target = offer(kafka_admin, broker, names, tmp_path)
    await_drained(broker, names)

    assert written_seqs(target, names) == list(range(MESSAGES))


@pytest.mark.parametrize(("example", "compiler"), [("kafka_java", "javac"), ("franz_go", "go")])
def test_consumers_in_java_and_go_pass_the_identity_on(
    example: str, compiler: str, kube: Kube, broker: Broker, tmp_path: Path
) -> None:
    """Kafka's Java client and franz-go: each message has a record, each member its pod's name."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not on the PATH, so {example} cannot be built")
    names = RunNames(f"own-{example.replace('_', '-')}")
    folder = tmp_path / example
    shutil.copytree(EXAMPLES / example, folder, ignore=shutil.ignore_patterns("build"))
    BUILDS[example](folder)
    manifest = (folder / "deployment.yaml").read_text()
    with KafkaAdmin(broker.bootstrap_servers) as admin:
        make_topics(admin, names)
        start(
            kube,
            broker.bootstrap_servers,
            names,
            manifest,
            folder,
            accounting="output",
            env=OUTPUT_ENV,
        )
        target = offer(admin, broker, names, tmp_path)
    await_drained(broker, names)

    assert written_seqs(target, names) == list(range(MESSAGES))
    with KafkaAdmin(broker.bootstrap_servers) as admin:
        members = admin.describe_group(names.group).members
    assert len(members) == 2
    assert all(member.client_id.startswith("consumer-") for member in members)


def test_a_consumer_writes_the_ledger_with_its_secret_and_its_folder(
    kube: Kube, broker: Broker, kafka_admin: KafkaAdmin, tmp_path: Path
) -> None:
    """The rows name each message once, with its pod; members are told by their client ids."""
    names = RunNames("own-ledger")
    make_topics(kafka_admin, names)

    start(kube, broker.bootstrap_servers, names, LEDGER_WRITER, DATA, accounting="ledger")
    target = offer(kafka_admin, broker, names, tmp_path)
    await_drained(broker, names)

    members = kafka_admin.describe_group(names.group).members
    assert len(members) == 2
    assert all(member.client_id.startswith("orders-consumer-") for member in members)
    values = [value_of(message) for message in read_all(target, names.processed_topic)]
    batch = pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([0] * len(values), pa.int32()),
            "offset": pa.array(range(len(values)), pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
    )
    rows = [row for found in decode_ledger([batch], 0) for row in found.to_pylist()]
    assert {row["foreign"] for row in rows} == {None}
    assert sorted(row["seq"] for row in rows) == list(range(MESSAGES))
    assert {row["pod"] for row in rows} <= {m.client_id.removeprefix("orders-") for m in members}


@pytest.mark.parametrize("by", ["variables", "file"])
def test_a_consumer_logs_in_with_tls_and_scram(by: str, kube: Kube, tmp_path: Path) -> None:
    """Settings come by placeholders or by the bench's file; no object of a pod shows a value."""
    names = RunNames(f"own-secured-{by}")
    with secured_broker(tmp_path / "secured") as secured:
        with KafkaAdmin(secured.broker.bootstrap_servers) as admin:
            make_topics(admin, names)
        settings = secured.tls_settings(tmp_path)
        file = tmp_path / "client.properties"
        file.write_text(as_lines(settings))

        start(
            kube,
            secured.tls_servers,
            names,
            SECURED,
            DATA,
            kafka=KafkaSettings(settings, str(file)),
            accounting="output",
            env={**OUTPUT_ENV, **LOGIN},
            args=[by],
        )
        with KafkaAdmin(secured.broker.bootstrap_servers) as admin:
            target = offer(admin, secured.broker, names, tmp_path)
        await_drained(secured.broker, names)

        assert written_seqs(target, names) == list(range(MESSAGES))
    pods = kube.list("Pod")
    assert len(pods) == 2
    assert PASSWORD not in str([*pods, kube.get("Deployment", "consumer")])
