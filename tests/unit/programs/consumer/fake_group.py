"""A consumer group's client with the behaviour that the consumer relies on, without a broker."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from lagbench.core.telemetry.records_of_programs import Record
from lagbench.programs.consumer.work_queues import PartitionWork, RecordChunk, Writes
from lagbench.programs.consumer.write_schedule import WriteSchedule
from lagbench.shared_with_spark.event import EVENT_DTYPE

Kind = TypeVar("Kind", bound=Record)


class FakeClient:
    """Keeps commits and assignments as the real client does; rejects commits when told to."""

    def __init__(self) -> None:
        """Start empty."""
        self.committed: dict[int, int] = {}
        self.assigned: set[int] = set()
        self.paused: set[int] = set()
        self.refusals: list[int] = []
        self.asked_asynchronously: list[dict[int, int]] = []

    def memberid(self) -> str:
        """Return the member id."""
        return "member-1"

    def commit(
        self, *, offsets: list[TopicPartition], asynchronous: bool
    ) -> list[TopicPartition] | None:
        """Take a commit, or reject it."""
        asked = {place.partition: place.offset for place in offsets}
        if asynchronous:
            self.asked_asynchronously.append(asked)
            return None
        if self.refusals:
            # As the real one: no error of a commit says that it is retriable.
            raise KafkaException(KafkaError(self.refusals.pop(0), "refused"))
        self.committed |= asked
        return offsets

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Replace the assignment."""
        self.assigned = {place.partition for place in partitions}

    def unassign(self) -> None:
        """Drop the assignment."""
        self.assigned = set()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Add to the assignment."""
        self.assigned |= {place.partition for place in partitions}

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Take from the assignment."""
        self.assigned -= {place.partition for place in partitions}

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Lift pauses."""
        self.paused -= {place.partition for place in partitions}


class Reported:
    """Collects telemetry."""

    def __init__(self) -> None:
        """Start empty."""
        self.records: list[Record] = []

    def send(self, record: Record) -> None:
        """Keep a record."""
        self.records.append(record)

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Return the records of one kind."""
        return [record for record in self.records if isinstance(record, kind)]


def places(*partitions: int) -> list[TopicPartition]:
    """Return partitions of the events topic."""
    return [TopicPartition("events", partition) for partition in partitions]


def chunk(first_offset: int, count: int, arrived_at: int = 0) -> RecordChunk:
    """Return ``count`` consecutive records; seq is the offset plus 1000."""
    offsets = np.arange(first_offset, first_offset + count, dtype=np.int64)
    events = np.zeros(count, EVENT_DTYPE)
    events["seq"] = offsets + 1000
    events["entity_id"] = offsets * 7
    events["planned_offset_ns"] = offsets * 11
    return RecordChunk(offsets, events, arrived_at)


def begun(work: PartitionWork, count: int) -> Writes:
    """Begin ``count`` writes that cost nothing."""
    return work.begin(count, WriteSchedule(0, 1), horizon_at=0, now=0)
