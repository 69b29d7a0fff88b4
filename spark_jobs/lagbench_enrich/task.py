"""Work on one partition of a micro-batch in an executor, and write its ledger records.

The cost of a message, the schedule of the writes and the ledger are those of the stand-in, so both
kinds of consumer do the same work. A task has a share of the pod's concurrency. Its ledger records
are acknowledged before the task ends, so before the batch is in the checkpoint.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, Message, Producer
from pyspark import TaskContext

from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.core.telemetry.records_of_programs import SparkTask
from lagbench.errors import NotReady
from lagbench.programs.consumer.ledger import BatchEncoder
from lagbench.programs.consumer.work_queues import PartitionWork, RecordChunk, Writes
from lagbench.programs.consumer.worker import CpuBurner, MessageCosts
from lagbench.programs.consumer.write_schedule import DownstreamClock, WriteSchedule
from lagbench.shared_with_spark.event import EVENT_BYTES, decode_events
from lagbench.shared_with_spark.spark_job import spark_member
from lagbench_enrich.session import EnrichOptions
from pod_program.kafka_settings import RECOVERY, own_settings
from pod_program.steady_clock import SteadyClock

TASK_SCHEMA = "partition int, rows bigint"
_TURN_NS = 250_000_000
"""The writes of this time go to the ledger in one record."""
_FLUSH_SECONDS = 300.0
_TELEMETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class BatchTask:
    """The settings of the tasks of one micro-batch."""

    options: EnrichOptions
    batch: int
    slots: int
    """Messages in progress in one task."""


def run_task(task: BatchTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do the work of one task on rows of partition, offset, value, planned_at_ms.

    Yield one row: the partition and its number of messages.

    :raises NotReady: the ledger's topic rejected a record.
    """
    work = _TaskWork(task)
    for batch in batches:
        if batch.num_rows:
            work.take(batch)
    yield work.end()


@dataclass(slots=True)
class _Tools:
    """The clients that a Python process of an executor keeps between tasks."""

    pod: str
    producer: Producer
    telemetry: TelemetryLog
    clock: SteadyClock = field(default_factory=SteadyClock)


@cache
def _tools(servers: str, telemetry_topic: str) -> _Tools:
    pod = os.environ["POD_NAME"]
    settings: dict[str, Any] = {
        **own_settings(servers),
        "client.id": f"{pod}-ledger",
        "enable.idempotence": True,
        "linger.ms": 5,
        "compression.type": "lz4",
        **RECOVERY,
        "log_level": 4,
        "message.timeout.ms": 300_000,
    }
    return _Tools(pod, Producer(settings), TelemetryLog(servers, telemetry_topic))


def warm_up(options: EnrichOptions) -> str:
    """Load what a task needs; return the pod's name."""
    tools = _tools(options.bootstrap_servers, options.telemetry_topic)
    tools.producer.list_topics(options.processed_topic, 10)
    return tools.pod


def events_in(values: pa.Array) -> tuple[npt.NDArray[np.bool_], npt.NDArray[Any]]:
    """Return which of the records' values are events, and these; a tombstone has no value."""
    lengths = pa.compute.binary_length(values).fill_null(-1)
    is_event = lengths.to_numpy(zero_copy_only=False) == EVENT_BYTES
    return is_event, decode_events(b"".join(values.filter(pa.array(is_event)).to_pylist()))


class _TaskWork:
    def __init__(self, task: BatchTask) -> None:
        options = task.options
        self._task = task
        self._tools = _tools(options.bootstrap_servers, options.telemetry_topic)
        context = TaskContext.get()
        if context is None:
            raise NotReady("a task of the stream runs only in an executor of Spark")
        self._attempt = context.attemptNumber()
        self._task_id = context.taskAttemptId()
        self._costs = MessageCosts.of(options)
        self._downstream = DownstreamClock(options.pace)
        self._schedule = WriteSchedule(self._costs.mean_ns, task.slots, self._downstream)
        self._burner = CpuBurner(self._costs.cpu_ns, self._tools.clock.now_ns)
        self._encoder = BatchEncoder(self._tools.pod)
        self._refusal: KafkaError | None = None
        self._work: PartitionWork | None = None
        self._rows = 0
        self._first, self._last = -1, -1
        self._began_at = self._tools.clock.now_ns()

    def take(self, batch: pa.RecordBatch) -> None:
        """Work on the rows in order."""
        values = batch.column("value")
        offsets = batch.column("offset").to_numpy(zero_copy_only=False)
        is_event, events = events_in(values)
        offsets = offsets[is_event].astype(np.int64)
        if not len(offsets):
            return
        partition = int(batch.column("partition")[0].as_py())
        if self._work is None:
            member = spark_member(self._task.batch, self._task_id)
            self._work = PartitionWork(partition, member)
            self._first = int(offsets[0])
        self._last = int(offsets[-1])
        if self._downstream.needs_stream_start:
            place = int(np.flatnonzero(is_event)[0])
            planned_ms = int(batch.column("planned_at_ms")[place].as_py())
            started_at = planned_ms * 1_000_000 - int(events["planned_offset_ns"][0])
            self._downstream.stream_started(started_at)
        chunk = RecordChunk(offsets, events, self._tools.clock.now_ns())
        self._costs.draw([chunk])
        self._work.offer(chunk)
        while self._work.queued:
            self._turn(self._work, chunk.arrived_at)

    def _turn(self, work: PartitionWork, arrived_at: int) -> None:
        now = self._tools.clock.now_ns()
        horizon_at = max(now, self._schedule.next_start_at) + _TURN_NS
        count = min(work.queued, max(1, self._schedule.room_until(horizon_at, arrived_at, now)))
        if self._burner.cpu_ns:
            count = min(count, max(1, _TURN_NS // self._burner.cpu_ns))
        writes = work.begin(count, self._schedule, horizon_at=horizon_at, now=now)
        if self._burner.cpu_ns:
            writes, late_ns = self._burner.work_on(writes, 0)
            self._schedule.delay(late_ns)
        wait_ns = writes.all_done_at - self._tools.clock.now_ns()
        if wait_ns > 0:
            time.sleep(wait_ns / 1e9)  # the work itself: the wait of the downstream's writes
        self._send(writes)
        self._rows += len(writes)

    def _send(self, writes: Writes) -> None:
        record = self._encoder.record([writes])
        producer, topic = self._tools.producer, self._task.options.processed_topic
        while True:
            self._raise_refusal()
            try:
                producer.produce(topic, record.value, record.key, on_delivery=self._delivered)
            except BufferError:
                producer.poll(0.05)
            else:
                producer.poll(0)
                return

    def end(self) -> pa.RecordBatch:
        """Wait until the ledger has all; report the task."""
        if self._tools.producer.flush(_FLUSH_SECONDS):
            raise NotReady(f"the ledger topic {self._task.options.processed_topic} does not answer")
        self._raise_refusal()
        partition = -1 if self._work is None else self._work.partition
        if self._work is not None:
            self._tools.telemetry.send(
                SparkTask(
                    at=self._tools.clock.now_ns(),
                    source=self._tools.pod,
                    batch=self._task.batch,
                    partition=partition,
                    attempt=self._attempt,
                    started_at=self._began_at,
                    rows=self._rows,
                    first_offset=self._first,
                    last_offset=self._last,
                )
            )
            self._tools.telemetry.flush(_TELEMETRY_SECONDS)
        columns = [pa.array([partition], pa.int32()), pa.array([self._rows], pa.int64())]
        return pa.RecordBatch.from_arrays(columns, names=["partition", "rows"])

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._refusal = error

    def _raise_refusal(self) -> None:
        if self._refusal is not None:
            topic = self._task.options.processed_topic
            raise NotReady(f"the ledger topic {topic} rejected a record: {self._refusal.str()}")
