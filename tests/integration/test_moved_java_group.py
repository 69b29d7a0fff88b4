"""A live group of Kafka's Java client that moves to cooperative-sticky, on a real broker.

A member of Java names several assignors, which librdkafka does not allow. The group uses one that
all of its members name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.eventually import eventually

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.process.processes import end_process, start_tied
from lagbench.core.scenario import RunNames
from lagbench.embedded.broker import Broker
from lagbench.embedded.example_consumers import build_java, examples_folder
from lagbench.errors import NotReady

pytestmark = pytest.mark.integration

RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
PARTITIONS = 6


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
        """Start a member by its name."""
        environment = os.environ | {
            "KAFKA_BROKERS": self._servers,
            "ORDERS_TOPIC": self.names.events_topic,
            "PRICES_TOPIC": self.names.processed_topic,
            "GROUP_ID": self.names.group,
            "CLIENT_ID": name,
            "PARTITION_ASSIGNMENT_STRATEGY": assignors,
            "JAVA_TOOL_OPTIONS": "-Xmx128m -XX:+UseSerialGC",
        }
        command = ["java", "-cp", "build:build/lib/*", "OrderPrices"]
        with self.log_of(name).open("ab") as log:
            self.members[name] = start_tied(command, log=log, env=environment, cwd=self._folder)
        return self.members[name]

    def log_of(self, name: str) -> Path:
        """Return the file with what a member wrote."""
        return self._folder / f"{name}.log"

    def replace(self, assignors: str, *, new: str) -> None:
        """Replace one member after the other; each new one joins before an old one leaves."""
        for number, old in enumerate(sorted(self.members)):
            self.start(f"{new}-{number}", assignors)
            self.await_members(3)
            self.members[old].terminate()
            assert self.members.pop(old).wait(timeout=60) is not None
            self.await_members(2)

    def await_members(self, count: int) -> None:
        """Wait until so many members share the topic."""

        def is_shared_out() -> bool:
            try:
                group = self._admin.describe_group(self.names.group)
            except NotReady:  # the coordinator of a new group takes its time
                return False
            held = [len(member.partitions) for member in group.members]
            return group.is_stable and len(held) == count and sum(held) == PARTITIONS

        eventually(is_shared_out, f"{count} members that share the topic")

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
    """When all members name both, the group takes their first; then range can be left out."""
    assert group.assignor == "range"

    group.replace(f"{COOPERATIVE},{RANGE}", new="both")
    with_both = group.assignor
    group.replace(COOPERATIVE, new="new")

    assert with_both == "cooperative-sticky"
    assert group.assignor == "cooperative-sticky"


def test_cooperative_sticky_alone_is_rejected_by_a_group_of_range(group: JavaGroup) -> None:
    """The new member ends with the broker's reason; the old ones keep the group."""
    early = group.start("early", COOPERATIVE)

    assert early.wait(timeout=180) != 0

    assert "InconsistentGroupProtocolException" in group.log_of("early").read_text()
    group.await_members(2)
    assert group.assignor == "range"
