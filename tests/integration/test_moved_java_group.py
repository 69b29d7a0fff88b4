"""A live group of Kafka's Java client that moves to another balancer, on a real broker.

A member of Java names several assignors, which librdkafka does not allow. The group uses one that
all of its members name.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from tests.eventually import eventually
from tests.integration.consumer_group import shares_out
from tests.integration.producer_target import ProducerTarget, read_all, value_of

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kafka.kafka_lag import open_admin, read_group_lag
from lagbench.core.scenario.run_names import RunNames
from lagbench.embedded.broker import Broker
from lagbench.embedded.example_consumers import build_java, examples_folder
from localkube.processes import end_process, start_tied

pytestmark = pytest.mark.slow
RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
STICKY = "cooperative-sticky"
KIP_848 = "consumer"
PARTITIONS = 6
ENDED_BY_SIGTERM = 143


class JavaGroup:
    """The members of one group: processes of the example in Java."""

    def __init__(self, folder: Path, broker: Broker, admin: KafkaAdmin) -> None:
        """Use the example that is built in ``folder``, on new topics."""
        self.names = RunNames(f"java-{uuid4().hex[:8]}")
        self.members: dict[str, subprocess.Popen[bytes]] = {}
        self._folder, self._servers, self._admin = folder, broker.bootstrap_servers, admin
        admin.create_topics(
            [
                TopicSpec(self.names.events_topic, PARTITIONS, {}),
                TopicSpec(self.names.processed_topic, 1, {}),
            ]
        )

    def start(self, name: str, assignors: str) -> subprocess.Popen[bytes]:
        """Start a member by its name; ``STICKY`` is a member of librdkafka."""
        environment = os.environ | {
            "KAFKA_BROKERS": self._servers,
            "ORDERS_TOPIC": self.names.events_topic,
            "PRICES_TOPIC": self.names.processed_topic,
            "GROUP_ID": self.names.group,
            "CLIENT_ID": name,
            "PARTITION_ASSIGNMENT_STRATEGY": assignors,
            "COMMIT_ON_REVOKE": "1",
            "GROUP_PROTOCOL": KIP_848 if assignors == KIP_848 else "classic",
            "JAVA_TOOL_OPTIONS": "-Xmx128m -XX:+UseSerialGC",
        }
        command = ["java", "-cp", "build:build/lib/*", "OrderPrices"]
        if assignors == STICKY:
            command = [sys.executable, str(examples_folder() / "after_advice.py")]
        with self.log_of(name).open("ab") as log:
            self.members[name] = start_tied(command, log=log, env=environment, cwd=self._folder)
        return self.members[name]

    def log_of(self, name: str) -> Path:
        """Return the file with what a member wrote."""
        return self._folder / f"{name}.log"

    def replace(self, assignors: str, *, new: str) -> list[str]:
        """Replace one member after the other; each new one joins before an old one leaves.

        Return the group's assignor after each of them.
        """
        found = []
        for number, old in enumerate(sorted(self.members)):
            self.start(f"{new}-{number}", assignors)
            self.await_members(3)
            self.members[old].terminate()
            assert self.members[old].wait(timeout=60) == ENDED_BY_SIGTERM
            del self.members[old]
            self.await_members(2)
            found.append(self.assignor)
        return found

    def await_members(self, count: int) -> None:
        """Wait until so many members share the topic."""
        eventually(
            lambda: shares_out(self._admin, self.names.group, count, PARTITIONS),
            f"{count} members that share the topic",
        )

    @contextmanager
    def load(self) -> Iterator[list[str]]:
        """Offer orders all the time; the list has them, each once, when the block is over."""
        offered: list[str] = []
        over = threading.Event()
        producer = Producer({"bootstrap.servers": self._servers, "enable.idempotence": True})

        def offer() -> None:
            while not over.wait(0.05):
                for _ in range(10):
                    offered.append(f"o-{len(offered)}")
                    order = json.dumps({"order": offered[-1], "total_cents": 5})
                    place = len(offered) % PARTITIONS
                    producer.produce(self.names.events_topic, order, partition=place)
                producer.poll(0)

        thread = threading.Thread(target=offer)
        thread.start()
        try:
            yield offered
        finally:
            over.set()
            thread.join()
        assert producer.flush(30) == 0

    def priced(self, count: int) -> list[str]:
        """Return the orders of the output, once there are so many and the group has no lag."""
        target = ProducerTarget(self._servers, self.names.events_topic)

        def orders() -> list[str] | None:
            records = read_all(target, self.names.processed_topic)
            found = [str(json.loads(value_of(record))["order"]) for record in records]
            return found if len(found) >= count and not self._lag() else None

        return eventually(orders, "a price of each order")

    def _lag(self) -> int:
        with closing(open_admin(self._servers)) as admin:
            places = read_group_lag(admin, self.names.group, self.names.events_topic).values()
        return sum(place.end - (place.committed or 0) for place in places)

    @property
    def assignor(self) -> str:
        """The assignor that the broker chose for the group."""
        return self._admin.describe_group(self.names.group).assignor


@pytest.fixture
def group(broker: Broker, kafka_admin: KafkaAdmin, tmp_path: Path) -> Iterator[JavaGroup]:
    """Provide a group of two members that name range alone."""
    if shutil.which("javac") is None:
        pytest.skip("javac is not on the PATH, so the example in Java cannot be built")
    folder = tmp_path / "kafka_java"
    shutil.copytree(
        examples_folder() / "kafka_java", folder, ignore=shutil.ignore_patterns("build")
    )
    build_java(folder)
    found = JavaGroup(folder, broker, kafka_admin)
    try:
        for name in ("old-0", "old-1"):
            found.start(name, RANGE)
        found.await_members(2)
        yield found
    finally:
        for process in found.members.values():
            end_process(process.pid, grace_seconds=10)
            process.wait(timeout=60)


def test_a_group_of_range_becomes_cooperative_by_two_restarts(group: JavaGroup) -> None:
    """First to both names, then range is left out; a third one restarts the cooperative group.

    The group takes the first name of its members as soon as the last one has both. Members that
    commit before partitions leave repeat no order.
    """
    assert group.assignor == "range"

    with group.load() as offered:
        assert group.replace(f"{COOPERATIVE},{RANGE}", new="both") == ["range", STICKY]
        assert group.replace(COOPERATIVE, new="new") == [STICKY, STICKY]
        assert group.replace(COOPERATIVE, new="newer") == [STICKY, STICKY]

    assert sorted(group.priced(len(offered))) == sorted(offered)


def test_cooperative_sticky_alone_is_rejected_by_a_group_of_range(group: JavaGroup) -> None:
    """The new member ends with the broker's reason; the old ones keep the group."""
    early = group.start("early", COOPERATIVE)

    assert early.wait(timeout=180) != 0

    assert "InconsistentGroupProtocolException" in group.log_of("early").read_text()
    group.await_members(2)
    assert group.assignor == "range"


def test_a_cooperative_group_moves_to_kip_848_in_place(group: JavaGroup) -> None:
    """Pod by pod, under load; its leader writes no user data into the assignments."""
    group.replace(f"{COOPERATIVE},{RANGE}", new="both")
    group.replace(COOPERATIVE, new="new")

    with group.load() as offered:
        group.replace(KIP_848, new="moved")

    assert group.assignor == "uniform"
    assert set(group.priced(len(offered))) == set(offered)


@pytest.mark.parametrize(("leader", "other"), [(COOPERATIVE, STICKY), (STICKY, COOPERATIVE)])
def test_the_leader_decides_whether_a_group_of_two_clients_moves(
    group: JavaGroup, leader: str, other: str
) -> None:
    """The first member leads. One of librdkafka copies user data into the assignments."""
    for name in list(group.members):
        group.members[name].terminate()
        group.members.pop(name).wait(timeout=60)
    group.start("leader", leader)
    group.await_members(1)
    group.start("other", other)
    group.await_members(2)

    new = group.start("new", KIP_848)

    if leader == STICKY:
        assert new.wait(timeout=180) != 0
        assert "custom assignor" in group.log_of("new").read_text()
    else:
        group.await_members(3)
