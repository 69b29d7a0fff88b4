"""Run real consumer pods as processes, offer them events, and read what they reported."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from tests.eventually import WAIT_SECONDS, eventually

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.telemetry.records import decode_record
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.errors import NotReady
from lagbench.shared_with_spark.event import EVENT_DTYPE, event_values, record_keys, seq_of_value
from localkube.processes import end_process, start_tied

Kind = TypeVar("Kind", bound=Record)


@dataclass(frozen=True)
class LedgerRows:
    """Every processed record: one row each, columns as arrays."""

    partition: npt.NDArray[np.int64]
    pod: npt.NDArray[np.str_]
    offset: npt.NDArray[np.int64]
    seq: npt.NDArray[np.uint64]
    started_at: npt.NDArray[np.int64]
    done_at: npt.NDArray[np.int64]
    failed_attempts: npt.NDArray[np.int64]  # 0: processed


@dataclass
class ConsumerGroupRun:
    """One run's topics and its pods."""

    bootstrap_servers: str
    names: RunNames
    partitions: int
    log_dir: Path
    proxied_servers: str = ""
    """Where pods reach Kafka, if not directly; their telemetry is direct."""
    pods: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    sent: int = 0

    def start(self, pod: str, *flags: str, metrics_port: int = 0) -> subprocess.Popen[bytes]:
        """Start a pod by its name."""
        environment = os.environ | {
            "POD_NAME": pod,
            "KAFKA_BOOTSTRAP_SERVERS": self.proxied_servers or self.bootstrap_servers,
            "TELEMETRY_BOOTSTRAP_SERVERS": self.bootstrap_servers,
            "PORT_METRICS": str(metrics_port),
        }
        command = [sys.executable, "-m", "lagbench.programs.consumer"]
        arguments = ["--run-id", self.names.run_id, *flags]
        with (self.log_dir / f"{pod}.log").open("ab") as log:
            self.pods[pod] = start_tied([*command, *arguments], log=log, env=environment)
        return self.pods[pod]

    def terminate(self, pod: str, *, within_seconds: float = WAIT_SECONDS) -> int:
        """Send SIGTERM and return the exit code."""
        self.pods[pod].terminate()
        return self.pods[pod].wait(timeout=within_seconds)

    def offer(self, count: int, *, rate_per_second: float | None = None) -> None:
        """Send ``count`` events round robin over the partitions, paced when a rate is given."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "linger.ms": 5})
        events = np.zeros(count, EVENT_DTYPE)
        events["seq"] = np.arange(self.sent, self.sent + count)
        events["entity_id"] = events["seq"] % 1000
        values, keys = event_values(events), record_keys(events)
        began, sent = time.monotonic(), 0
        while sent < count:
            elapsed = time.monotonic() - began
            due = count if rate_per_second is None else min(count, int(elapsed * rate_per_second))
            for index in range(sent, due):
                while True:
                    try:
                        producer.produce(
                            self.names.events_topic,
                            values[index],
                            keys[index],
                            partition=(self.sent + index) % self.partitions,
                        )
                        break
                    except BufferError:
                        producer.poll(0.1)
            sent = due
            producer.poll(0.01)
        assert producer.flush(180) == 0
        self.sent += count

    def offer_until(self, is_over: threading.Event, *, rate_per_second: int) -> None:
        """Send events at a rate until ``is_over`` is set; ends within a second of it."""
        while not is_over.is_set():
            self.offer(rate_per_second, rate_per_second=rate_per_second)

    def ledger(self) -> LedgerRows:
        """Return everything in the ledger now, without what no transaction has committed."""
        tables, partitions, pods = [], [], []
        for message in read_topic(self.bootstrap_servers, self.names.processed_topic):
            table = pa.ipc.open_stream(message.value()).read_all()
            labels = table.schema.metadata
            tables.append(table)
            partitions.append(np.full(len(table), int(labels[b"partition"]), np.int64))
            pods.append(np.full(len(table), labels[b"pod"].decode(), "U64"))
        if not tables:
            empty = np.zeros(0, np.int64)
            return LedgerRows(empty, empty.astype("U64"), empty, empty.astype("u8"), *[empty] * 3)
        whole = pa.concat_tables(
            [table.replace_schema_metadata() for table in tables], promote_options="default"
        )
        failed = np.zeros(len(whole), np.int64)
        if "failed_attempts" in whole.column_names:
            failed = whole["failed_attempts"].fill_null(0).to_numpy().astype(np.int64)
        columns = {name: whole[name].to_numpy() for name in whole.column_names}
        return LedgerRows(
            np.concatenate(partitions),
            np.concatenate(pods),
            columns["offset"],
            columns["seq"],
            columns["started_at"],
            columns["done_at"],
            failed,
        )

    def created_at(self) -> npt.NDArray[np.int64]:
        """Return when each event that was offered was created, by its seq: ns since the epoch."""
        created = np.zeros(self.sent, np.int64)
        for message in read_topic(self.bootstrap_servers, self.names.events_topic):
            created[seq_of_value(message.value() or b"")] = message.timestamp()[1] * 1_000_000
        return created

    def telemetry(self, kind: type[Kind]) -> list[Kind]:
        """Return the telemetry records of one kind, in the order of their instants."""
        messages = read_topic(self.bootstrap_servers, self.names.telemetry_topic)
        records = [decode_record(message.value() or b"") for message in messages]
        return sorted(
            (record for record in records if isinstance(record, kind)), key=lambda found: found.at
        )

    def await_processed(self, count: int, *, within_seconds: float = WAIT_SECONDS) -> LedgerRows:
        """Wait until ``count`` different events are in the ledger."""

        def whole_ledger() -> LedgerRows | None:
            try:
                rows = self.ledger()
            except (KafkaException, TimeoutError):  # a broker just started may not lead yet
                return None
            return rows if np.unique(rows.seq).size >= count else None

        what = f"{count} events in the ledger"
        return eventually(whole_ledger, what, within_seconds=within_seconds)

    def await_members(
        self, admin: KafkaAdmin, count: int, *, within_seconds: float = WAIT_SECONDS
    ) -> None:
        """Wait until ``count`` members share all partitions in a stable group."""

        def is_shared_out() -> bool:
            return shares_out(admin, self.names.group, count, self.partitions)

        eventually(is_shared_out, f"{count} members", within_seconds=within_seconds)


def shares_out(admin: KafkaAdmin, group_id: str, members: int, partitions: int) -> bool:
    """Return whether so many members share all partitions in a stable group."""
    try:
        group = admin.describe_group(group_id)
    except NotReady:  # the coordinator of a new group takes its time
        return False
    held = sum(len(member.partitions) for member in group.members)
    return group.is_stable and len(group.members) == members and held == partitions


def read_topic(bootstrap_servers: str, topic: str) -> list[Message]:
    """Return every message of a topic up to its end, without what no transaction has committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )

    def ends_of_all() -> dict[int, int]:
        try:
            partitions = consumer.list_topics(topic, 60).topics[topic].partitions
            places = [TopicPartition(topic, number) for number in partitions]
            return {p.partition: consumer.get_watermark_offsets(p, 60)[1] for p in places}
        except KafkaException:  # a topic made just now may have no leader yet
            return {}

    try:
        ends = eventually(ends_of_all, f"the end of each partition of {topic}")
        consumer.assign([TopicPartition(topic, number, 0) for number in ends])
        found: list[Message] = []
        # A topic that grows may have no end to reach, one with transactions no last message.
        left = {number for number, end in ends.items() if end}
        gives_up_at = time.monotonic() + WAIT_SECONDS
        while left and time.monotonic() < gives_up_at:
            for message in consumer.consume(1000, 0.5):
                error, partition = message.error(), message.partition() or 0
                if error is None:
                    found.append(message)
                    if (message.offset() or 0) >= ends[partition] - 1:
                        left.discard(partition)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(partition)
        if left:
            raise TimeoutError(f"{sorted(left)} of {topic} were not read to the end")
        return found
    finally:
        consumer.close()


@contextmanager
def consumer_group_run(
    bootstrap_servers: str, log_dir: Path, *, partitions: int
) -> Iterator[ConsumerGroupRun]:
    """Provide the topics of a run; its pods end with the block."""
    names = RunNames(f"consumers-{uuid.uuid4().hex[:8]}")
    with KafkaAdmin(bootstrap_servers) as admin:
        admin.create_topics(
            [
                TopicSpec(names.events_topic, partitions),
                TopicSpec(names.processed_topic, 6),
                TopicSpec(names.telemetry_topic, 1),
            ]
        )
    run = ConsumerGroupRun(bootstrap_servers, names, partitions, log_dir)
    try:
        yield run
    finally:
        for process in run.pods.values():
            end_process(process.pid, grace_seconds=10)
            process.wait(timeout=60)
