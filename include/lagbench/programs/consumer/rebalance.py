"""The group's callbacks and commits: give partitions up without losing or repeating work.

An offset is committed when the ledger has acknowledged everything before it.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from typing import Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from lagbench.core.telemetry.records_of_programs import (
    GroupJoined,
    PartitionsAssigned,
    PartitionsRevoked,
)
from lagbench.programs.consumer.consumer_settings import ConsumerOptions
from lagbench.programs.consumer.pod_reports import PodReports
from lagbench.programs.consumer.work_queues import PartitionWork, WorkQueues

log = logging.getLogger(__name__)


class Rebalancing:
    """Serves the callbacks; they run on the poll thread, inside ``consume`` or ``close``.

    A revoke waits only for the work in flight of the partitions given up. The worker continues with
    all others meanwhile.
    """

    def __init__(
        self,
        options: ConsumerOptions,
        queues: WorkQueues,
        commits: OffsetCommits,
        reports: PodReports,
        identity: GroupIdentity,
    ) -> None:
        """Move partitions to and from ``queues``."""
        self._options, self._queues, self._commits = options, queues, commits
        self._reports, self._identity = reports, identity
        self._open_since: float | None = None  # an eager revoke that awaits its assignment
        self._has_joined = False
        self.moved_at = -math.inf  # monotonic seconds of the last change
        self.is_leaving = False
        """True: the pod has finished its work itself."""

    def note_membership(self, consumer: Consumer) -> None:
        """Report joining, once, as soon as the group has given a member id."""
        if not self._has_joined and (member_id := consumer.memberid()):
            self._has_joined = True
            self._reports.send(GroupJoined, member_id=str(member_id))

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Take on ``partitions``."""
        options, began = self._options, time.monotonic()
        if self._open_since is None:
            self._reports.pod_counts.rebalances_total += 1
        else:
            began, self._open_since = self._open_since, None
        self.note_membership(consumer)
        numbers = _numbers(partitions)
        if not options.is_incremental:
            self._queues.disown(self._queues.owned())
        self._queues.own(numbers, str(consumer.memberid() or ""))
        if options.is_transactional:
            self._identity.refresh(consumer)
        if options.is_incremental:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
        # librdkafka keeps a pause of an earlier assignment: a partition that comes back would
        # stand still for ever.
        consumer.resume(partitions)
        self.moved_at = time.monotonic()
        is_incremental = options.is_incremental
        self._moved(PartitionsAssigned, consumer, numbers, is_incremental=is_incremental)
        self._reports.pod_counts.rebalance_seconds.append(self.moved_at - began)

    def on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Finish what has begun, commit it, give ``partitions`` up."""
        options, began = self._options, self._began()
        # Under commit=auto the group takes what was handed over as read: dropping it loses it.
        drops_queued = options.commits_what_is_done or not options.graceful_shutdown
        works, in_flight = self._queues.close(_numbers(partitions), drops_queued=drops_queued)
        if options.is_transactional:
            self._identity.refresh(consumer)  # the worker commits while this callback waits
        if options.graceful_shutdown and not self.is_leaving:
            timeout_seconds = options.shutdown_timeout_seconds
            if not self._queues.wait_settled(works, timeout_seconds):
                log.warning("revoke: work in flight did not finish in %s s", timeout_seconds)
            if options.commit == "manual":
                self._commits.commit_now(works, "revoke", timeout_seconds)
        self._give_up(consumer, partitions, in_flight, began, is_lost=False)

    def on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Drop ``partitions``: others have them already, a commit would move their offsets back."""
        began = self._began()
        _, in_flight = self._queues.close(_numbers(partitions), drops_queued=True)
        self._give_up(consumer, partitions, in_flight, began, is_lost=True)

    def _began(self) -> float:
        """Begin an episode; an eager one lasts until its assignment."""
        began = time.monotonic()
        self._reports.pod_counts.rebalances_total += 1
        if not self._options.is_incremental:
            self._open_since = began
        return began

    def _give_up(
        self,
        consumer: Consumer,
        partitions: list[TopicPartition],
        in_flight: int,
        began: float,
        *,
        is_lost: bool,
    ) -> None:
        numbers = _numbers(partitions)
        self._queues.disown([work for work in self._queues.owned() if work.partition in numbers])
        member_id = consumer.memberid()
        if self._options.is_incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        self.moved_at = time.monotonic()
        seconds = self.moved_at - began
        self._moved(
            PartitionsRevoked,
            consumer,
            numbers,
            member_id=str(member_id or ""),
            is_lost=is_lost,
            in_flight=in_flight,
            finish_seconds=seconds,
        )
        if self._options.is_incremental:
            self._reports.pod_counts.rebalance_seconds.append(seconds)

    def _moved(
        self,
        kind: type[PartitionsAssigned | PartitionsRevoked],
        consumer: Consumer,
        numbers: list[int],
        **fields: object,
    ) -> None:
        counts = self._reports.pod_counts
        owned = [work.partition for work in self._queues.owned()]
        counts.assigned_partitions = len(owned)
        own = {"member_id": str(consumer.memberid() or ""), "rebalance": counts.rebalances_total}
        self._reports.send(kind, partitions=numbers, owned=owned, **{**own, **fields})


def _numbers(partitions: list[TopicPartition]) -> list[int]:
    return sorted(place.partition for place in partitions)


# The generation may change without a callback (KIP-848), and a stale one aborts a transaction.
_REFRESH_SECONDS = 0.1


class GroupIdentity:
    """Read by the poll thread, used by the worker.

    The client answers for its membership on the polling thread only: asked from another one while
    that polls, confluent-kafka 2.16.1 does not return.
    """

    def __init__(self) -> None:
        """Start without metadata."""
        self.metadata: object = None
        """The argument of ``send_offsets_to_transaction``; None before the first look."""
        self._looked_at = -math.inf

    def refresh(self, consumer: Consumer) -> None:
        """Ask the client (call it from the poll thread)."""
        self.metadata = consumer.consumer_group_metadata()
        self._looked_at = time.monotonic()

    def refresh_if_due(self, consumer: Consumer) -> None:
        """Ask the client unless that was a moment ago."""
        if time.monotonic() - self._looked_at >= _REFRESH_SECONDS:
            self.refresh(consumer)


_ATTEMPTS = 3
_RETRY_SECONDS = 0.1

# The group has begun a generation that this member has not heard of yet. It still owns the
# partitions, and the next attempt carries the new generation: when nine pods left at once, the one
# commit that gave up made 33 messages be processed again. Not inside a rebalance callback: there
# the client may not learn the generation before the callback is over.
_STALE_GENERATION = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,  # the same, of the next generation's protocol
    }
)

# What passes by itself, by name: ``KafkaError.retriable()`` is False for every error of a commit
# (2.16.1). Those that librdkafka itself repeats for a while, and those of a coordinator that it has
# lost or not found yet.
_PASSING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._TRANSPORT,  # noqa: SLF001 - its only name, as of the next two
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
    }
)

_Cause = Literal["interval", "revoke", "shutdown", "auto"]


class OffsetCommits:
    """Commits what is committable, now and then or at once. Used by the poll thread only."""

    def __init__(self, consumer: Consumer, options: ConsumerOptions, reports: PodReports) -> None:
        """Commit to the group of ``consumer``."""
        self._consumer, self._topic, self._reports = consumer, options.topic, reports
        self._interval_seconds = options.commit_interval_seconds
        self._async_cause: _Cause = "auto" if options.commit == "auto" else "interval"
        self._next_at = time.monotonic() + self._interval_seconds
        self._is_under_way = False

    def commit_if_due(self, works: Sequence[PartitionWork]) -> None:
        """Start a commit of new offsets once an interval; ``on_result`` gets its outcome."""
        now = time.monotonic()
        if now < self._next_at or self._is_under_way:
            return
        self._next_at = now + self._interval_seconds
        offsets = _uncommitted(works)
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=self._named(offsets), asynchronous=True)
        except KafkaException as error:
            self._reports.commit_failed(self._member_id(), offsets, str(error.args[0]))
        else:
            self._is_under_way = True

    def on_result(
        self,
        error: KafkaError | None,
        results: list[TopicPartition],
        works: Sequence[PartitionWork],
    ) -> None:
        """Take the result of an asynchronous commit (librdkafka calls it from the poll)."""
        self._is_under_way = False
        if error is not None and error.code() == KafkaError._NO_OFFSET:  # noqa: SLF001
            return
        works_of = {work.partition: work for work in works}
        self._take(error, results, works_of, self._async_cause)

    def commit_now(
        self,
        works: Sequence[PartitionWork],
        cause: Literal["revoke", "shutdown"],
        timeout_seconds: float,
    ) -> bool:
        """Commit what is new and wait for the broker; True when nothing is left uncommitted."""
        deadline = time.monotonic() + timeout_seconds
        by_partition = {work.partition: work for work in works}
        attempts = 0
        while attempts < _ATTEMPTS:
            offsets = _uncommitted(works)
            if not offsets or time.monotonic() > deadline:
                break
            if cause == "shutdown":
                error, results = self._commit_bounded(offsets, deadline - time.monotonic())
            else:
                error, results = self._commit_waiting(offsets)
            self._take(error, results, by_partition, cause)
            is_stale = (
                cause == "shutdown" and error is not None and error.code() in _STALE_GENERATION
            )
            if error is not None and not is_stale and error.code() not in _PASSING:
                break
            attempts += not is_stale  # those end with the rejoin, or with the deadline
            if _uncommitted(works):
                time.sleep(_RETRY_SECONDS)  # the group's state is the broker's: nothing to await
        return not _uncommitted(works)

    def _commit_waiting(
        self, offsets: dict[int, int]
    ) -> tuple[KafkaError | None, list[TopicPartition]]:
        named = self._named(offsets)
        try:
            return None, self._consumer.commit(offsets=named, asynchronous=False) or named
        except KafkaException as error:
            return error.args[0], named

    def _commit_bounded(
        self, offsets: dict[int, int], timeout_seconds: float
    ) -> tuple[KafkaError | None, list[TopicPartition]]:
        """Commit from a thread that can be left behind: the client's call has no time limit.

        Inside a rebalance callback the client serves commits of the polling thread only (2.16.1:
        another thread's waits until the callback has ended), so there it is not used.
        """
        outcome: list[tuple[KafkaError | None, list[TopicPartition]]] = []
        thread = threading.Thread(
            target=lambda: outcome.append(self._commit_waiting(offsets)), daemon=True
        )
        thread.start()
        thread.join(max(timeout_seconds, 0))
        if outcome:
            return outcome[0]
        error = KafkaError(KafkaError._TIMED_OUT, f"no answer in {timeout_seconds:.1f} s")  # noqa: SLF001
        return error, self._named(offsets)

    def _take(
        self,
        error: KafkaError | None,
        results: list[TopicPartition],
        works: dict[int, PartitionWork],
        cause: _Cause,
    ) -> None:
        done: dict[int, int] = {}
        refused: dict[int, int] = {}
        reason = "" if error is None else error.str()
        for result in results:
            if result.offset < 0:
                continue
            if error is None and result.error is None:
                done[result.partition] = result.offset
                if result.partition in works:
                    works[result.partition].committed = result.offset
            else:
                refused[result.partition] = result.offset
                reason = reason or str(result.error)
        if done:
            self._reports.committed(self._member_id(), done, cause)
        if refused or (error is not None and not done):
            log.warning("commit rejected: %s", reason)
            self._next_at = (
                time.monotonic()
            )  # mostly a rebalance under way: again, with the new one
            self._reports.commit_failed(self._member_id(), refused, reason)

    def _named(self, offsets: dict[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition, at) for partition, at in offsets.items()]

    def _member_id(self) -> str:
        return str(self._consumer.memberid() or "")


def _uncommitted(works: Sequence[PartitionWork]) -> dict[int, int]:
    return {
        work.partition: work.committable
        for work in works
        if work.committable is not None and work.committable != work.committed
    }
