"""A producer's topics on a real broker: its command line there, and what it left in them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import uuid
from dataclasses import dataclass

from confluent_kafka import Message
from tests.integration.consumer_group import read_topic

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.core.telemetry.records import TelemetryRecord, decode_record
from lagbench.core.telemetry.records_of_programs import StreamFinished
from lagbench.shared_with_spark.event import decode_events

PARTITIONS = 6


@dataclass(frozen=True)
class ProducerTarget:
    """A topic with its telemetry topic."""

    bootstrap_servers: str
    topic: str

    @property
    def telemetry_topic(self) -> str:
        """The topic of the reports."""
        return f"{self.topic}.telemetry"

    def command(self, *arguments: str) -> list[str]:
        """Return the producer's command line."""
        return [
            sys.executable,
            "-m",
            "lagbench.programs.producer",
            f"--topic={self.topic}",
            f"--telemetry-topic={self.telemetry_topic}",
            f"--bootstrap-servers={self.bootstrap_servers}",
            *arguments,
        ]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the producer to its end."""
        command = self.command(*arguments)
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    def records(self) -> list[TelemetryRecord]:
        """Return the telemetry in order."""
        return [decode_record(value_of(m)) for m in read_all(self, self.telemetry_topic)]

    def finished(self) -> StreamFinished:
        """Return the one report of the end."""
        (record,) = [item for item in self.records() if isinstance(item, StreamFinished)]
        return record


def value_of(message: Message) -> bytes:
    """Return a message's value."""
    value = message.value()
    assert isinstance(value, bytes)
    return value


def read_all(target: ProducerTarget, topic: str) -> list[Message]:
    """Return every message of a topic up to its end offsets."""
    return read_topic(target.bootstrap_servers, topic)


def log_sha256(messages: list[Message]) -> str:
    """Return the digest of the values in the order of seq."""
    values = {int(decode_events(value_of(m))["seq"][0]): value_of(m) for m in messages}
    return hashlib.sha256(b"".join(values[seq] for seq in sorted(values))).hexdigest()


def make_target(
    admin: KafkaAdmin, servers: str, configs: dict[str, str] | None = None
) -> ProducerTarget:
    """Create the topics of one test."""
    target = ProducerTarget(servers, f"producer-{uuid.uuid4().hex[:8]}")
    admin.create_topics(
        [
            TopicSpec(target.topic, PARTITIONS, configs or {}),
            TopicSpec(target.telemetry_topic, 1, {}),
        ]
    )
    return target
