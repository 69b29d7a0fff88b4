"""The ledger: what was processed, one Kafka record per finished batch of one partition.

The commit of an offset waits for the ledger's acknowledgement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, Message, Producer

from lagbench.errors import NotReady
from lagbench.programs.consumer.consumer_settings import ConsumerOptions
from lagbench.programs.consumer.work_queues import Attempts, PartitionWork, Writes
from pod_program.kafka_settings import RECOVERY, own_settings

LEDGER_VERSION = "1"

LEDGER_FIELDS = (
    ("offset", pa.int64()),
    ("seq", pa.uint64()),
    ("entity_id", pa.uint64()),
    ("planned_offset_ns", pa.int64()),
    ("started_at", pa.int64()),  # unix ns: the write began
    ("done_at", pa.int64()),  # unix ns: the write ended
)

FAILED_FIELD = pa.field("failed_attempts", pa.uint8(), nullable=False)
"""Only in batches with a dead letter, a message that was given up: its attempts; 0: processed."""
_HURRIED_POLL_SECONDS = 0.005  # returns when an acknowledgement comes, the rebalance waits for it


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """One batch of one partition as a Kafka record."""

    work: PartitionWork
    count: int
    last_offset: int
    key: bytes
    value: bytes


class LedgerWriter(Protocol):
    """The destination of finished batches. Used by one thread at a time."""

    def send(self, batch: Sequence[Writes]) -> None:
        """Hand over one batch of one partition."""

    def serve(self, *, is_hurried: bool) -> None:
        """Take note of what the broker has; hurried when a rebalance waits for it."""

    def flush(self, timeout_seconds: float) -> int:
        """Bring all to the broker; returns how many batches it does not have."""


class Ledger:
    """Writes batches to the processed topic and says when the broker has them."""

    def __init__(
        self, options: ConsumerOptions, acknowledge: Callable[[PartitionWork, int, int], None]
    ) -> None:
        """Open the producer; ``acknowledge(work, record count, last offset)`` runs in ``poll``."""
        self._producer = Producer(ledger_settings(options))
        self._topic = options.processed_topic
        self._encoder = BatchEncoder(options.pod_name)
        self._acknowledge = acknowledge
        self._refusal: KafkaError | None = None

    def send(self, batch: Sequence[Writes]) -> None:
        """Send one batch of one partition; waits while the producer's queue is full."""
        record = self._encoder.record(batch)

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                self._refusal = error
            else:
                self._acknowledge(record.work, record.count, record.last_offset)

        while True:
            self._raise_refusal()
            try:
                self._producer.produce(self._topic, record.value, record.key, on_delivery=delivered)
            except BufferError:  # the broker is away; the queue empties when it is back
                self._producer.poll(0.05)
            else:
                return

    def serve(self, *, is_hurried: bool) -> None:
        """Serve acknowledgements; hurried, wait a moment for one."""
        self._producer.poll(_HURRIED_POLL_SECONDS if is_hurried else 0)
        self._raise_refusal()

    def flush(self, timeout_seconds: float) -> int:
        """Wait until all is acknowledged; returns how many batches are not."""
        return int(self._producer.flush(timeout_seconds))

    def _raise_refusal(self) -> None:
        if self._refusal is not None:
            raise NotReady(
                f"the ledger topic {self._topic} rejected a record: {self._refusal.str()}; its "
                "offsets stay uncommitted and the next owner does the work again"
            )


class BatchEncoder:
    """Makes Kafka records of batches; one schema for each partition and membership."""

    def __init__(self, pod: str) -> None:
        """Label everything with ``pod``."""
        self._pod = pod
        self._schemas: dict[tuple[int, str], pa.Schema] = {}

    def record(self, batch: Sequence[Writes]) -> LedgerRecord:
        """Return the record of one batch of one partition."""
        work = batch[0].work
        place = (work.partition, work.member_id)
        if place not in self._schemas:
            self._schemas[place] = ledger_schema(work.partition, self._pod, work.member_id)
        count, last_offset = sum(len(writes) for writes in batch), int(batch[-1].offsets[-1])
        key, value = work.partition.to_bytes(4, "big"), encode_batch(batch, self._schemas[place])
        return LedgerRecord(work, count, last_offset, key, value)


def ledger_schema(partition: int, pod: str, member_id: str) -> pa.Schema:
    """Return the schema of a partition's batches."""
    metadata = {
        "version": LEDGER_VERSION,
        "pod": pod,
        "partition": str(partition),
        "member_id": member_id,
    }
    return pa.schema([pa.field(*field, nullable=False) for field in LEDGER_FIELDS], metadata)


def encode_batch(batch: Sequence[Writes], schema: pa.Schema) -> bytes:
    """Return ``batch`` as an Arrow IPC stream with one record batch, in processing order."""
    columns: list[npt.NDArray[np.generic]] = [
        np.concatenate([writes.offsets for writes in batch]),
        np.concatenate([writes.events["seq"] for writes in batch]),
        np.concatenate([writes.events["entity_id"] for writes in batch]),
        np.concatenate([writes.events["planned_offset_ns"] for writes in batch]),
        np.concatenate([writes.started_at for writes in batch]),
        np.concatenate([writes.done_at for writes in batch]),
    ]
    if any(writes.failed_attempts is not None for writes in batch):
        schema = schema.append(FAILED_FIELD)
        columns.append(np.concatenate([_failures(writes) for writes in batch]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays(_arrays(columns, schema), schema=schema))
    return bytes(memoryview(sink.getvalue()))


def _failures(writes: Writes) -> Attempts:
    failed = writes.failed_attempts
    return np.zeros(len(writes), dtype=np.uint8) if failed is None else failed


def _arrays(columns: list[npt.NDArray[np.generic]], schema: pa.Schema) -> list[pa.Array]:
    """Wrap the columns; ``pa.array`` would import pandas (1 s, 50 MB a pod) to look at numpy's."""
    return [
        pa.Array.from_buffers(field.type, len(column), [None, pa.py_buffer(column)])
        for field, column in zip(schema, columns, strict=True)
    ]


# What a killed pod leaves open hides what was written after it, for readers of what is committed,
# until the broker ends it. Half of the client's default; longer than a broker's restart.
_TRANSACTION_TIMEOUT_MS = 30_000


def ledger_settings(options: ConsumerOptions) -> dict[str, Any]:
    """Return the ledger producer's configuration: in order, once, patient through an outage."""
    settings: dict[str, Any] = {
        **own_settings(options.bootstrap_servers),
        "client.id": f"{options.pod_name}-ledger",
        "enable.idempotence": True,
        "linger.ms": 5,
        "compression.type": "lz4",
        **RECOVERY,
        "log_level": 4,
    }
    if options.is_transactional:
        # A container that is started again in its pod takes over, and ends, what it left open.
        settings["transactional.id"] = f"{options.group}.{options.pod_name}"
        settings["transaction.timeout.ms"] = _TRANSACTION_TIMEOUT_MS
    else:
        settings["message.timeout.ms"] = 300_000
    return settings
