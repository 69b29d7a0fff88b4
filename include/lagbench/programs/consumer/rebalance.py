"""The group's callbacks: take partitions on, give them up without losing or repeating work."""

from __future__ import annotations

import logging
import math
import time

from confluent_kafka import Consumer, TopicPartition

from lagbench.core.telemetry.records_of_programs import (
    GroupJoined,
    PartitionsAssigned,
    PartitionsRevoked,
)
from lagbench.programs.consumer.consumer_settings import ConsumerOptions
from lagbench.programs.consumer.offset_commits import OffsetCommits
from lagbench.programs.consumer.pod_reports import PodReports
from lagbench.programs.consumer.work_queues import WorkQueues

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
