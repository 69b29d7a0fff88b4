"""The ledger: what was processed, one Kafka record per finished batch of one partition.

The commit of an offset waits for the ledger's acknowledgement. In transactions a batch and its
offsets are committed together, or not at all: a pod that is killed leaves neither, so that nothing
is done twice for those who read what is committed. A batch whose transaction was aborted goes into
the next one, unless its partition was given up meanwhile: then the work is the next owner's.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from lagbench.adapters.kafka.client_settings import RECOVERY, own_settings
from lagbench.errors import NotReady
from lagbench.programs.consumer.consumer_settings import ConsumerOptions
from lagbench.programs.consumer.rebalance import GroupIdentity
from lagbench.programs.consumer.work_queues import Attempts, PartitionWork, Writes

if TYPE_CHECKING:
    from lagbench.programs.consumer.pod_reports import PodReports
    from lagbench.programs.consumer.work_queues import WorkQueues

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


log = logging.getLogger(__name__)
_CALL_SECONDS = 2.0  # of one request; what it began goes on with the next call
_REGISTERING_LIMIT_SECONDS = 60.0  # the coordinator of a new id takes its time

# A generation may wait for another member's shutdown; what lasts longer than this is no rebalance.
_FAILING_LIMIT_SECONDS = 30.0
_ABORT_PAUSE_SECONDS = 0.2
_NOT_COMMITTED = "no transaction could be committed"
Cause = Literal["interval", "revoke", "shutdown"]
_Asked = Literal["register", "nothing", "offsets", "commit", "abort"]


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


class TransactionalLedger:
    """Commits once an interval, and at once when a rebalance waits for it.

    A request that had no answer has to be asked again before anything else is, and nothing may join
    its transaction: ``_asked`` says which one it is, and what comes meanwhile waits. No call here
    lasts longer than the few requests that it makes, unless the client's queue is full.
    """

    def __init__(
        self,
        options: ConsumerOptions,
        identity: GroupIdentity,
        queues: WorkQueues,
        reports: PodReports,
    ) -> None:
        """Open the producer; offsets are committed by the member that ``identity`` says."""
        self._producer = Producer(ledger_settings(options))
        self._identity, self._queues, self._reports = identity, queues, reports
        self._topic, self._events_topic = options.processed_topic, options.topic
        self._interval_seconds = options.commit_interval_seconds
        self._encoder = BatchEncoder(options.pod_name)
        self._lock = threading.RLock()
        self._asked: _Asked = "register"
        self._sent: list[LedgerRecord] = []  # in the open transaction; none is open without
        self._waiting: list[LedgerRecord] = []  # for the next one
        self._next_at = 0.0  # the first batch does not wait: a reaction ends with it
        self._retry_at = 0.0  # after an abort, however hurried
        self._is_broken = False  # the open transaction takes no more: it must be aborted
        self._failing_since: float | None = None

    def send(self, batch: Sequence[Writes]) -> None:
        """Add one batch of one partition to the open transaction, or to the next one."""
        with self._lock:
            self._waiting.append(self._encoder.record(batch))
            if self._asked == "nothing":
                self._add_waiting()

    def serve(self, *, is_hurried: bool) -> None:
        """Register at first; commit what is due."""
        with self._lock:
            self._producer.poll(0)
            cause: Cause = "revoke" if is_hurried else "interval"
            if self._asked != "nothing":
                self._go_on(cause)
            due_at = self._retry_at if is_hurried else self._next_at
            if self._asked == "nothing" and self._sent and time.monotonic() >= due_at:
                self._commit(cause)

    def flush(self, timeout_seconds: float) -> int:
        """Commit all; returns how many batches are not committed."""
        deadline = time.monotonic() + timeout_seconds
        if self._lock.acquire(timeout=timeout_seconds):
            try:
                pause = threading.Event()
                while self._unsettled() and time.monotonic() < deadline:
                    pause.wait(self._retry_at - time.monotonic())
                    self._go_on("shutdown")
            finally:
                self._lock.release()
        return self._unsettled()

    def _unsettled(self) -> int:
        return len(self._sent) + len(self._waiting)

    def _go_on(self, cause: Cause) -> None:
        """Ask what is next, or again what had no answer."""
        if self._asked == "register":
            self._register()
        elif self._asked == "abort":
            self._finish_abort()
        else:
            self._commit(cause)

    def _register(self) -> None:
        """Fence off an earlier producer of the same name, and end what it left open."""
        error = _outcome(lambda: self._producer.init_transactions(_CALL_SECONDS))
        if error is not None:
            if not error.retriable():
                raise NotReady(f"the broker does not support transactions: {error.str()}")
            self._require_patience(
                "the broker does not support transactions", error.str(), _REGISTERING_LIMIT_SECONDS
            )
            return
        self._failing_since = None
        self._add_waiting()

    def _add_waiting(self) -> None:
        """Let what waits join the open transaction; begin one if there is none."""
        self._asked = "nothing"
        waiting, self._waiting = self._waiting, []
        for batch in waiting:
            if batch.work.is_given_up:
                self._queues.abandon(batch.work, batch.count)
                continue
            if not self._sent:
                self._producer.begin_transaction()
            self._sent.append(batch)
            self._produce(batch)

    def _produce(self, sent: LedgerRecord) -> None:
        while True:
            try:
                self._producer.produce(self._topic, sent.value, sent.key)
            except BufferError:  # the broker is away; the queue empties when it is back
                self._producer.poll(0.05)
            except KafkaException as error:
                # A request of the client's own has failed; a fatal error has another code.
                if error.args[0].code() != KafkaError._STATE:  # noqa: SLF001 - its only name
                    raise
                self._is_broken = True
                return
            else:
                return

    def _commit(self, cause: Cause) -> None:
        """Commit the open transaction, or abort it and keep what still may be committed."""
        if self._asked == "nothing":
            if self._is_broken:
                self._abort("it accepts no more records")
                return
            if self._has_given_up():
                self._abort("a partition was given up")
                return
            self._asked = "offsets"
        if self._asked == "offsets":
            error = self._send_offsets()
            if error is not None:
                self._take(error, "send the offsets")
                return
            if self._has_given_up():
                self._abort("a partition was given up")
                return
            self._asked = "commit"
        error = _outcome(lambda: self._producer.commit_transaction(_CALL_SECONDS))
        if error is not None:
            self._take(error, "commit")
            return
        sent, self._sent = self._sent, []
        self._failing_since = None
        self._next_at = time.monotonic() + self._interval_seconds
        for batch in sent:
            batch.work.committed = batch.last_offset + 1
            self._queues.acknowledge(batch.work, batch.count, batch.last_offset)
        self._reports.committed(sent[-1].work.member_id, _positions(sent), cause)
        self._add_waiting()

    def _require_patience(self, what: str, reason: str, limit_seconds: float | None = None) -> None:
        """End the pod if nothing has worked for long: the next one registers again."""
        now = time.monotonic()
        since = self._failing_since = self._failing_since or now
        if now - since > (_FAILING_LIMIT_SECONDS if limit_seconds is None else limit_seconds):
            raise NotReady(f"{what} for {now - since:.0f} s: {reason}")

    def _has_given_up(self) -> bool:
        return any(batch.work.is_given_up for batch in self._sent)

    def _send_offsets(self) -> KafkaError | None:
        offsets = [
            TopicPartition(self._events_topic, partition, offset)
            for partition, offset in _positions(self._sent).items()
        ]
        group = self._identity.metadata
        return _outcome(
            lambda: self._producer.send_offsets_to_transaction(offsets, group, _CALL_SECONDS)
        )

    def _take(self, error: KafkaError, what: str) -> None:
        """Abort where that helps; a timeout is asked again at the next turn."""
        if error.txn_requires_abort():
            member_id = self._sent[-1].work.member_id
            self._reports.commit_failed(member_id, _positions(self._sent), error.str())
            self._abort(error.str())
            return
        if error.fatal() or not error.retriable():
            raise NotReady(
                f"could not {what} in a transaction: {error.str()}; the next owner begins at the "
                "committed offset"
            )
        self._require_patience(_NOT_COMMITTED, error.str())

    def _abort(self, reason: str) -> None:
        log.warning("transaction aborted: %s", reason)
        self._require_patience(_NOT_COMMITTED, reason)
        self._asked = "abort"
        self._finish_abort()

    def _finish_abort(self) -> None:
        """End the transaction; what may still be committed goes into the next one."""
        error = _outcome(lambda: self._producer.abort_transaction(_CALL_SECONDS))
        if error is not None:
            if not error.retriable():
                raise NotReady(f"could not abort a transaction: {error.str()}")
            self._require_patience(_NOT_COMMITTED, error.str())
            return
        self._next_at = self._retry_at = time.monotonic() + _ABORT_PAUSE_SECONDS
        self._is_broken = False
        self._waiting = [*self._sent, *self._waiting]
        self._sent = []
        self._add_waiting()
        if not self._sent:
            self._failing_since = None  # nothing is left that could fail


def _positions(sent: Sequence[LedgerRecord]) -> dict[int, int]:
    """Return the next offset of each partition; later batches of one come later."""
    return {batch.work.partition: batch.last_offset + 1 for batch in sent}


def _outcome(call: Callable[[], object]) -> KafkaError | None:
    """Return the error of a request, None when it succeeded."""
    try:
        call()
    except KafkaException as error:
        found: KafkaError = error.args[0]
        return found
    return None


LedgerWriter = Ledger | TransactionalLedger
