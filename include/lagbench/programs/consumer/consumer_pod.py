"""The consumer pod: the poll loop, from subscribing to leaving the group.

The poll thread does no work, so that slow work never exceeds ``max.poll.interval.ms``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from itertools import groupby
from typing import cast

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from lagbench.core.telemetry.records_of_programs import SigtermReceived
from lagbench.errors import NotReady
from lagbench.programs.consumer.consumer_settings import ConsumerOptions
from lagbench.programs.consumer.ledger import Ledger, LedgerWriter
from lagbench.programs.consumer.pod_reports import PodReports
from lagbench.programs.consumer.rebalance import GroupIdentity, OffsetCommits, Rebalancing
from lagbench.programs.consumer.transactional_ledger import TransactionalLedger
from lagbench.programs.consumer.waited_slots import WaitedSlots
from lagbench.programs.consumer.work_queues import PartitionWork, RecordChunk, WorkQueues
from lagbench.programs.consumer.worker import MessageCosts, Worker
from lagbench.programs.consumer.write_schedule import DownstreamClock, WriteSchedule
from lagbench.shared_with_spark.event import (
    EVENT_BYTES,
    concatenate_values,
    decode_events,
    decode_identities,
    identity_of,
)
from pod_program.steady_clock import SteadyClock

log = logging.getLogger(__name__)
_POLL_RECORDS = 1000
_POLL_SECONDS = 0.02
_ANSWER_SECONDS = 1.0
_WAKE_SECONDS = 0.5
_CLOSE_SECONDS = 5.0

# Fetching starts when the committed offsets have come, which nothing announces: wake until then.
_AFTER_REBALANCE_SECONDS = 0.2
_GENERATION_LOOK_SECONDS = 0.1
_SILENT_WORKER_SECONDS = 30.0
_QUEUE_SECONDS = 0.5  # of the pod's whole capacity, in each partition's queue
_QUEUE_RECORDS = (200, 4000)
_EVENT_SIZES = frozenset({EVENT_BYTES})


class FetchWakeup:
    """Makes librdkafka fetch at once after a resume, by a small request to each leader.

    Its broker thread sleeps up to a second when every partition of the broker is paused, and a
    resume does not wake it: it looks again after its sleep or when a request passes through.
    librdkafka itself pauses and resumes everything around each incremental rebalance (seen with
    2.16.1: retained partitions stood still for up to 0.67 s).
    """

    def __init__(self, consumer: Consumer, topic: str) -> None:
        """Wake the fetchers of ``consumer``."""
        self._consumer = consumer
        self._topic = topic
        self._leaders: dict[int, int] = {}

    def wake(self, partitions: Iterable[int]) -> None:
        """Wake the brokers' threads that fetch ``partitions``; an unreachable broker is skipped."""
        wanted = list(partitions)
        if not wanted:
            return
        try:
            if not self._leaders.keys() >= set(wanted):
                self._leaders = self._read_leaders()
            for partition in {self._leaders.get(number, -1): number for number in wanted}.values():
                asked = TopicPartition(self._topic, partition)
                self._consumer.get_watermark_offsets(asked, _WAKE_SECONDS, cached=False)
        except KafkaException as error:
            self._leaders = {}
            log.warning("fetchers were not woken: %s", error.args[0])

    def _read_leaders(self) -> dict[int, int]:
        topics = self._consumer.list_topics(self._topic, _WAKE_SECONDS).topics
        partitions = topics[self._topic].partitions
        return {number: int(metadata.leader) for number, metadata in partitions.items()}


class ConsumerPod:
    """Owns the loop; everything here runs on the poll thread."""

    def __init__(
        self, options: ConsumerOptions, consumer: Consumer, reports: PodReports, clock: SteadyClock
    ) -> None:
        """Put the parts together and start nothing; ``consumer`` is subscribed."""
        self.options, self.consumer, self.reports, self.clock = options, consumer, reports, clock
        self.pod_counts = reports.pod_counts
        self.queues = WorkQueues(options.concurrency, on_acknowledged=reports.first_record_done)
        self.identity = GroupIdentity()
        self.commits = OffsetCommits(consumer, options, reports)
        self.rebalancing = Rebalancing(options, self.queues, self.commits, reports, self.identity)
        self.downstream = DownstreamClock(options.pace)
        self.costs = MessageCosts.of(options)
        kind_of_slots = WaitedSlots if options.work == "waited" else WriteSchedule
        slots = kind_of_slots(self.costs.mean_ns, options.concurrency, self.downstream)
        ledger: LedgerWriter
        if options.is_transactional:
            ledger = TransactionalLedger(options, self.identity, self.queues, reports)
        else:
            ledger = Ledger(options, self.queues.acknowledge)
        self.worker = Worker(self.queues, slots, ledger, clock, cpu_ns=self.costs.cpu_ns)
        self._high_water = queue_records(options.pod_rate_per_second)
        self._wakeup = FetchWakeup(consumer, options.topic)
        self._stop_asked = ""

    def ask_to_stop(self, reason: str) -> None:
        """Leave the group at the next turn of the loop (called from a signal handler)."""
        self._stop_asked = self._stop_asked or reason

    def run(self) -> None:
        """Consume until asked to stop."""
        self.worker.start()
        while not self._stop_asked:
            if not self.pod_counts.is_ready:
                self.pod_counts.is_ready = self._broker_answers()
            self.turn()

    def _broker_answers(self) -> bool:
        """Return whether the broker knows the topic; a pod is ready then, joined or not."""
        try:
            topics = self.consumer.list_topics(self.options.topic, _ANSWER_SECONDS).topics
        except KafkaException as error:
            log.warning("waiting for the broker: %s", error.args[0].str())
            return False
        return topics[self.options.topic].error is None

    def turn(self) -> None:
        """Fetch once and serve what is due."""
        try:
            messages = self.consumer.consume(_POLL_RECORDS, _POLL_SECONDS)
        except KafkaException as error:
            raise NotReady(f"could not fetch: {error.args[0].str()}") from error
        if messages:
            self._take_in(messages)
        self._let_flow()
        if time.monotonic() - self.rebalancing.moved_at < _AFTER_REBALANCE_SECONDS:
            self._wakeup.wake(work.partition for work in self.queues.owned())
        self.rebalancing.note_membership(self.consumer)
        if self.worker.failure is not None:
            raise NotReady(f"the worker failed: {self.worker.failure}") from self.worker.failure
        if self.options.commit == "manual":
            self.commits.commit_if_due(self.queues.owned())
        elif self.options.is_transactional:
            self.identity.refresh_if_due(self.consumer)
            self.worker.require_turning(_SILENT_WORKER_SECONDS)
        counts = self.queues.counts()
        self.reports.progress_if_due(self.queues.processed_total, counts.queued, counts.in_flight)

    def leave(self) -> None:
        """Make a graceful shutdown: finish, flush, commit, leave; with -drain off just leave."""
        self.pod_counts.is_ready = False
        counts = self.queues.counts()
        self.reports.send(SigtermReceived, queued=counts.queued, in_flight=counts.in_flight)
        if self.options.graceful_shutdown:
            is_graceful, abandoned = self._finish_work()
        else:
            is_graceful, abandoned = False, counts.queued + counts.in_flight
            # The transaction that is open stays open, as it does when a process just ends.
            self.worker.stop(sends_done=not self.options.is_transactional)
        self.rebalancing.is_leaving = True
        if self.options.graceful_shutdown and self.options.instance_id is None:
            self._await_leave()
        # The client's close has no time limit; without a broker the group forgets the member.
        closing = threading.Thread(target=self.consumer.close, name="close", daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)
        self._report_end(self._stop_asked, is_graceful=is_graceful, abandoned=abandoned)

    def report_failure(self, reason: str) -> None:
        """Report that the pod ends by a failure; it does not leave the group."""
        counts = self.queues.counts()
        abandoned = counts.queued + counts.in_flight
        self._report_end(reason, is_graceful=False, abandoned=abandoned)

    def _report_end(self, reason: str, *, is_graceful: bool, abandoned: int) -> None:
        total = self.queues.processed_total
        self.reports.pod_stopped(
            reason, is_graceful=is_graceful, abandoned=abandoned, processed_total=total
        )

    def _finish_work(self) -> tuple[bool, int]:
        deadline = time.monotonic() + self.options.shutdown_timeout_seconds
        numbers = [work.partition for work in self.queues.owned()]
        works, _ = self.queues.close(numbers, drops_queued=self.options.commits_what_is_done)
        is_settled = self._wait_settled(works, deadline)
        abandoned = sum(work.queued + work.in_flight for work in works)
        self._join_no_more()
        self.worker.stop(sends_done=not is_settled)
        # A deadline that the work has used up still leaves the commit of what is done a moment.
        left_seconds = max(deadline - time.monotonic(), 1.0)
        if self.options.commit != "manual":  # a transaction commits as it settles
            return is_settled, abandoned
        is_committed = self.commits.commit_now(works, "shutdown", left_seconds)
        return is_settled and is_committed, abandoned

    def _join_no_more(self) -> None:
        """Begin to leave: a heartbeat must not take this member into the rebalance of others.

        When several pods are stopped at once, the first to leave makes the others' next heartbeat
        join again. The broker answers a connection's requests in turn, so a leave behind such a
        join waits for the whole rebalance and begins another one, and a librdkafka client joins
        once a second at most: what all of them had stood still for 1.6 s instead of 0.4 s.
        Partitions are given up in ``close``, after the commit. (A static member does not leave.)
        """
        if self.options.instance_id is None:
            self.consumer.unsubscribe()

    def _await_leave(self) -> None:
        """Wait until librdkafka has begun the leave: it then gives up the member id.

        Its close sends no leave for a cooperative member without partitions, and ``unsubscribe``
        waits for a rebalance that runs. The group would wait for this member until its session
        ends. With partitions ``close`` leaves.
        """
        deadline = time.monotonic() + _CLOSE_SECONDS
        while (
            self.options.balancer == "cooperative-sticky"
            and self.consumer.memberid()
            and not self.consumer.assignment()
            and time.monotonic() < deadline
        ):
            self.consumer.poll(_POLL_SECONDS)

    def _wait_settled(self, works: list[PartitionWork], deadline: float) -> bool:
        """Wait for what was begun; others may leave meanwhile and begin a new generation."""
        if not self.options.is_transactional:
            return self.queues.wait_settled(works, self.options.shutdown_timeout_seconds)
        while time.monotonic() < deadline:
            self.identity.refresh(self.consumer)
            if self.queues.wait_settled(works, _GENERATION_LOOK_SECONDS):
                return True
        return False

    def _take_in(self, messages: list[Message]) -> None:
        arrived_at = self.clock.now_ns()
        if any(map(Message.error, messages)):
            messages = self._without_errors(messages)
        runs = [(n, list(run)) for n, run in groupby(messages, Message.partition)]
        found = [(number, run, self._chunk_of(run, arrived_at)) for number, run in runs]
        chunks = [(n, run, c) for n, run, c in found if n is not None and c is not None]
        self.costs.draw([chunk for _, _, chunk in chunks])
        for partition, records, chunk in chunks:
            if self.downstream.needs_stream_start:
                self.downstream.stream_started(stream_start_of(records, chunk))
            work = self.queues.offer(partition, chunk)
            if work is not None and work.queued > self._high_water and not work.is_paused:
                self.consumer.pause([TopicPartition(self.options.topic, partition)])
                work.is_paused = True

    def _chunk_of(self, messages: list[Message], arrived_at: int) -> RecordChunk | None:
        if self.options.identity == "value":
            return chunk_of(messages, arrived_at)
        return chunk_by_headers(messages, arrived_at, self.options.run_id or "")

    def _let_flow(self) -> None:
        flowing = [
            work
            for work in self.queues.owned()
            if work.is_paused and work.queued <= self._high_water // 2
        ]
        if flowing:
            topic = self.options.topic
            self.consumer.resume([TopicPartition(topic, work.partition) for work in flowing])
            for work in flowing:
                work.is_paused = False
            self._wakeup.wake(work.partition for work in flowing)

    def _without_errors(self, messages: list[Message]) -> list[Message]:
        for message in messages:
            error = message.error()
            if error is None:
                continue
            log.warning("poll: %s", error.str())
            if error.fatal() or error.code() in _FINAL_ERRORS:
                raise NotReady(f"the group permanently rejects this member: {error.str()}")
        return [message for message in messages if message.error() is None]


_FINAL_ERRORS = frozenset(
    {
        # What ended the client for good; fatal() of such a message is false.
        KafkaError._FATAL,  # noqa: SLF001 (the client has no other name for it)
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_ASSIGNOR,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    }
)


def queue_records(pod_rate: float | None) -> int:
    """Return how many records of one partition may be queued: half a second of the pod's work."""
    low, high = _QUEUE_RECORDS
    return high if pod_rate is None else round(min(max(pod_rate * _QUEUE_SECONDS, low), high))


def stream_start_of(messages: list[Message], chunk: RecordChunk) -> int:
    """Return the start of the stream (unix ns), to a millisecond, by the chunk's first event."""
    first = next(m for m in messages if m.offset() == int(chunk.offsets[0]))
    _, planned_at_ms = first.timestamp()
    return int(planned_at_ms) * 1_000_000 - int(chunk.events["planned_offset_ns"][0])


def chunk_of(messages: list[Message], arrived_at: int) -> RecordChunk | None:
    """Return the events in ``messages`` of one partition; records of another size are skipped."""
    values = cast("list[bytes]", list(map(Message.value, messages)))
    if None in values or set(map(len, values)) != _EVENT_SIZES:
        events = [message for message in messages if len(message.value() or b"") == EVENT_BYTES]
        log.warning("%d records are not events; skipped", len(messages) - len(events))
        return chunk_of(events, arrived_at) if events else None
    offsets = np.fromiter(map(Message.offset, messages), np.int64, len(messages))
    return RecordChunk(offsets, decode_events(concatenate_values(values)), arrived_at)


def chunk_by_headers(messages: list[Message], arrived_at: int, run_id: str) -> RecordChunk | None:
    """Return the messages of one partition with the run's identity; others are skipped."""
    found = [(message, identity_of(message.headers(), run_id)) for message in messages]
    known = [(message, identity) for message, identity in found if identity is not None]
    if len(known) < len(found):
        log.warning("%d records have no identity of the run; skipped", len(found) - len(known))
    if not known:
        return None
    offsets = np.fromiter((message.offset() for message, _ in known), np.int64, len(known))
    events = decode_identities(concatenate_values([identity for _, identity in known]))
    return RecordChunk(offsets, events, arrived_at)
