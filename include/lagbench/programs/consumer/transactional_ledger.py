"""The ledger in transactions: a batch and its offsets are committed together, or not at all.

A pod that is killed leaves neither, so that nothing is done twice for those who read what is
committed. A batch whose transaction was aborted goes into the next one, unless its partition was
given up meanwhile: then the work is the next owner's.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from lagbench.errors import NotReady
from lagbench.programs.consumer.consumer_settings import ConsumerOptions
from lagbench.programs.consumer.ledger import BatchEncoder, LedgerRecord, ledger_settings
from lagbench.programs.consumer.pod_reports import PodReports
from lagbench.programs.consumer.rebalance import GroupIdentity
from lagbench.programs.consumer.work_queues import WorkQueues, Writes

log = logging.getLogger(__name__)
_CALL_SECONDS = 2.0  # of one request; what it began goes on with the next call
_REGISTERING_LIMIT_SECONDS = 60.0  # the coordinator of a new id takes its time

# A generation may wait for another member's shutdown; what lasts longer than this is no rebalance.
_FAILING_LIMIT_SECONDS = 30.0
_ABORT_PAUSE_SECONDS = 0.2
_NOT_COMMITTED = "no transaction could be committed"
Cause = Literal["interval", "revoke", "shutdown"]
_Asked = Literal["register", "nothing", "offsets", "commit", "abort"]


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
