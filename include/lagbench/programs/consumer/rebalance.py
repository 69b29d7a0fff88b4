"""The group's callbacks: take partitions on, give them up without losing or repeating work."""

from __future__ import annotations

import logging
import math
import time

from confluent_kafka import Consumer, TopicPartition

from lagbench.programs.consumer.group_identity import GroupIdentity
from lagbench.programs.consumer.offset_commits import OffsetCommits
from lagbench.programs.consumer.reports import PodReports
from lagbench.programs.consumer.settings import ConsumerOptions
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
        self._options = options
        self._queues = queues
        self._commits = commits
        self._reports = reports
        self._identity = identity
        self._open_since: float | None = None  # an eager revoke that awaits its assignment
        self._has_joined = False
        self.moved_at = -math.inf  # monotonic seconds of the last change
        self.is_leaving = False
        """True: the pod has finished its work itself."""

    def note_membership(self, consumer: Consumer) -> None:
        """Report joining, once, as soon as the group has given a member id."""
        if self._has_joined:
            return
        member_id = str(consumer.memberid() or "")
        if member_id:
            self._has_joined = True
            self._reports.group_joined(member_id)

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Take on ``partitions``."""
        began = time.monotonic()
        if self._open_since is None:
            self._reports.rebalance_began()
        else:
            began, self._open_since = self._open_since, None
        self.note_membership(consumer)
        member_id = str(consumer.memberid() or "")
        numbers = sorted(partition.partition for partition in partitions)
        if not self._options.is_incremental:
            self._queues.disown(self._queues.owned())
        self._queues.own(numbers, member_id)
        if self._options.is_transactional:
            self._identity.refresh(consumer)
        if self._options.is_incremental:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
        # librdkafka keeps a pause of an earlier assignment: a partition that comes back would
        # stand still for ever.
        consumer.resume(partitions)
        self.moved_at = time.monotonic()
        seconds = self.moved_at - began
        self._reports.assigned(member_id, numbers, self._owned_numbers(), seconds=seconds)

    def on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Finish what has begun, commit it, give ``partitions`` up."""
        began = time.monotonic()
        self._begin_episode(began)
        numbers = sorted(partition.partition for partition in partitions)
        # Under commit=auto the group takes what was handed over as read: dropping it loses it.
        drops_queued = self._options.commits_what_is_done or not self._options.graceful_shutdown
        works, in_flight = self._queues.close(numbers, drops_queued=drops_queued)
        if self._options.is_transactional:
            self._identity.refresh(consumer)  # the worker commits while this callback waits
        if self._options.graceful_shutdown and not self.is_leaving:
            timeout_seconds = self._options.shutdown_timeout_seconds
            if not self._queues.wait_settled(works, timeout_seconds):
                log.warning("revoke: work in flight did not finish in %s s", timeout_seconds)
            if self._options.commit == "manual":
                self._commits.commit_now(works, "revoke", timeout_seconds)
        self._give_up(consumer, partitions, numbers, in_flight, began, is_lost=False)

    def on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Drop ``partitions``: others have them already, a commit would move their offsets back."""
        began = time.monotonic()
        self._begin_episode(began)
        numbers = sorted(partition.partition for partition in partitions)
        _, in_flight = self._queues.close(numbers, drops_queued=True)
        self._give_up(consumer, partitions, numbers, in_flight, began, is_lost=True)

    def _give_up(
        self,
        consumer: Consumer,
        partitions: list[TopicPartition],
        numbers: list[int],
        in_flight: int,
        began: float,
        *,
        is_lost: bool,
    ) -> None:
        given_up = [work for work in self._queues.owned() if work.partition in set(numbers)]
        self._queues.disown(given_up)
        member_id = str(consumer.memberid() or "")
        if self._options.is_incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        self.moved_at = time.monotonic()
        finish_seconds = self.moved_at - began
        self._reports.revoked(
            member_id,
            numbers,
            self._owned_numbers(),
            is_lost=is_lost,
            in_flight=in_flight,
            finish_seconds=finish_seconds,
            seconds=finish_seconds if self._options.is_incremental else None,
        )

    def _begin_episode(self, began: float) -> None:
        self._reports.rebalance_began()
        if not self._options.is_incremental:
            self._open_since = began

    def _owned_numbers(self) -> list[int]:
        return [work.partition for work in self._queues.owned()]
