"""The group's callbacks."""

from __future__ import annotations

import threading
import time
from typing import Any, Literal, cast

import pytest
from confluent_kafka import KafkaError, TopicPartition
from tests.unit.programs.consumer.fake_group import FakeClient, Reported, chunk, places

from lagbench.core.telemetry.records_of_programs import (
    CommitFailed,
    GroupJoined,
    OffsetsCommitted,
    PartitionsAssigned,
    PartitionsRevoked,
)
from lagbench.programs.consumer.consumer_settings import parse_options
from lagbench.programs.consumer.pod_reports import PodCounts, PodReports
from lagbench.programs.consumer.rebalance import GroupIdentity, OffsetCommits, Rebalancing
from lagbench.programs.consumer.work_queues import PartitionWork, WorkQueues, Writes
from lagbench.programs.consumer.write_schedule import WriteSchedule
from pod_program.steady_clock import SteadyClock

ENVIRONMENT = {"POD_NAME": "pod-a", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}


class Member:
    """A pod's rebalancing over a fake client; ``finish`` does what the worker would."""

    def __init__(self, *flags: str) -> None:
        """Wire a member from flags."""
        options = parse_options(["--run-id=a", "--drain-timeout=60", *flags], ENVIRONMENT)
        self.reported, self.pod_counts, self.client = Reported(), PodCounts(), FakeClient()
        reports = PodReports(options, self.reported.send, self.pod_counts, SteadyClock())
        self.queues = WorkQueues(1, reports.first_record_done)
        client = cast("Any", self.client)
        commits = OffsetCommits(client, options, reports)
        self.rebalancing = Rebalancing(options, self.queues, commits, reports, GroupIdentity())

    def assign(self, *partitions: int) -> None:
        """Give partitions."""
        self.rebalancing.on_assign(cast("Any", self.client), places(*partitions))

    def revoke(self, *partitions: int) -> None:
        """Take partitions away."""
        self.rebalancing.on_revoke(cast("Any", self.client), places(*partitions))

    def lose(self, *partitions: int) -> None:
        """Take partitions away that others have already."""
        self.rebalancing.on_lost(cast("Any", self.client), places(*partitions))

    def begin(self, partition: int, count: int, queued: int) -> list[Writes]:
        """Begin ``count`` writes and leave ``queued`` records waiting."""
        self.queues.offer(partition, chunk(0, count, 1))
        begun = self.queues.begin_writes(WriteSchedule(0, 1), 1, 1)
        if queued:
            self.queues.offer(partition, chunk(count, queued, 1))
        return begun

    def finish(self, begun: list[Writes]) -> None:
        """End, send and acknowledge."""
        for writes in begun:
            self.queues.finish(writes)
            for batch in self.queues.due_batches(lambda _work: True):
                self.queues.acknowledge(writes.work, len(batch[0]), int(batch[0].offsets[-1]))


@pytest.mark.parametrize("balancer", ["cooperative-sticky", "consumer"])
def test_an_incremental_rebalance_leaves_the_other_partitions_alone(balancer: str) -> None:
    """Giving up one of three keeps two, with their queues."""
    member = Member(f"--balancer={balancer}")
    member.assign(0, 1, 2)
    member.queues.offer(1, chunk(0, 5, 1))

    member.revoke(2)

    assert member.client.assigned == {0, 1}
    assert [work.partition for work in member.queues.owned()] == [0, 1]
    assert member.queues.counts().queued == 5


def test_an_eager_rebalance_is_one_rebalance_from_revoke_to_assignment() -> None:
    """Everything goes and comes back under one number, with one duration.

    The client keeps an old pause over a reassignment; the member lifts it.
    """
    member = Member("--balancer=range")
    member.assign(0, 1)
    member.client.paused = {0}
    member.revoke(0, 1)
    member.assign(0)

    numbers = [(type(record).__name__, record.rebalance) for record in member.reported.records[1:]]
    assert numbers == [
        ("PartitionsAssigned", 1),
        ("PartitionsRevoked", 2),
        ("PartitionsAssigned", 2),
    ]
    assert member.pod_counts.rebalances_total == 2
    assert len(member.pod_counts.rebalance_seconds) == 2
    assert member.pod_counts.assigned_partitions == 1
    assert member.client.paused == set()


def test_a_revoke_finishes_what_has_begun_commits_it_and_drops_the_rest() -> None:
    """The next owner starts exactly after the last finished record."""
    member = Member()
    member.assign(0)
    begun = member.begin(0, count=3, queued=4)

    def finish_while_the_revoke_waits() -> None:
        while not begun[0].work.is_closing:
            time.sleep(0.001)
        time.sleep(0.05)
        member.finish(begun)

    worker = threading.Thread(target=finish_while_the_revoke_waits, daemon=True)
    worker.start()

    member.revoke(0)
    worker.join()

    assert member.client.committed == {0: 3}
    revoked = member.reported.of(PartitionsRevoked)[0]
    assert (revoked.in_flight, revoked.is_lost, revoked.owned) == (7, False, [])
    assert revoked.finish_seconds >= 0.04


@pytest.mark.parametrize("is_lost", [True, False])
def test_lost_partitions_are_dropped_without_a_commit(*, is_lost: bool) -> None:
    """Others have them already: a commit would be rejected, or worse, taken.

    Without a graceful shutdown a revoke gives up at once, too.
    """
    member = Member(*(() if is_lost else ("--drain=off",)))
    member.assign(0)
    member.finish(member.begin(0, count=3, queued=4))

    (member.lose if is_lost else member.revoke)(0)

    assert member.client.committed == {}
    assert member.reported.of(PartitionsRevoked)[0].is_lost is is_lost
    assert member.queues.owned() == []


def test_joining_is_reported_once() -> None:
    """A member id is news only the first time."""
    member = Member()
    member.assign(0)
    member.assign(1)

    assert len(member.reported.of(GroupJoined)) == 1
    assert member.reported.of(PartitionsAssigned)[1].owned == [0, 1]


def commits_of(client: FakeClient, reported: Reported) -> OffsetCommits:
    """Commit with a short interval between."""
    options = parse_options(["--run-id=a", "--topic=events", "--commit-interval=0.01"], ENVIRONMENT)
    reports = PodReports(options, reported.send, PodCounts(), SteadyClock())
    return OffsetCommits(cast("Any", client), options, reports)


def work(partition: int, committable: int | None) -> PartitionWork:
    """Hold a partition with everything before ``committable`` acknowledged."""
    return PartitionWork(partition, "member-1", committable=committable)


def test_what_is_acknowledged_is_committed_once() -> None:
    """A partition without an acknowledgement is left out; a second commit has nothing to do."""
    client, reported = FakeClient(), Reported()
    commits, works = commits_of(client, reported), [work(0, 5), work(1, None)]

    assert commits.commit_now(works, "revoke", 5)
    assert commits.commit_now(works, "revoke", 5)

    assert client.committed == {0: 5}
    assert [record.offsets for record in reported.of(OffsetsCommitted)] == [{"0": 5}]


PASSING = [
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._WAIT_COORD,
]
# Nine pods left at once: a commit of the old generation is repeated until the new one comes. In a
# revocation the partitions have another owner: committing again would be no better.
STALE = [
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
]
FOR_GOOD = [KafkaError.UNKNOWN_MEMBER_ID, KafkaError.GROUP_AUTHORIZATION_FAILED]


@pytest.mark.parametrize(
    ("codes", "refusals", "cause", "is_repeated"),
    [
        (PASSING, 1, "revoke", True),
        (PASSING, 1, "shutdown", True),
        (STALE, 5, "shutdown", True),
        (STALE, 3, "revoke", False),
        (FOR_GOOD, 1, "shutdown", False),
    ],
)
def test_a_refusal_that_passes_is_tried_again(
    codes: list[int], refusals: int, cause: Literal["revoke", "shutdown"], is_repeated: bool
) -> None:
    """Each is reported, although no error of the client calls itself retriable."""
    for code in codes:
        assert not KafkaError(code).retriable()
        client, reported = FakeClient(), Reported()
        client.refusals = [code] * refusals

        assert commits_of(client, reported).commit_now([work(0, 5)], cause, 5) is is_repeated

        assert client.committed == ({0: 5} if is_repeated else {})
        failures = [failure.offsets for failure in reported.of(CommitFailed)]
        assert failures == [{"0": 5}] * (refusals if is_repeated else 1)


@pytest.mark.parametrize("error", [None, KafkaError(KafkaError.REBALANCE_IN_PROGRESS)])
def test_one_commit_is_under_way_at_a_time(error: KafkaError | None) -> None:
    """The next waits for the result of the one before; what was rejected stays due."""
    client, reported = FakeClient(), Reported()
    commits, works = commits_of(client, reported), [work(0, 5)]
    time.sleep(0.02)
    commits.commit_if_due(works)
    time.sleep(0.02)
    works[0].committable = 9
    commits.commit_if_due(works)
    assert client.asked_asynchronously == [{0: 5}]

    commits.on_result(error, [TopicPartition("events", 0, 5)], works)
    commits.commit_if_due(works)

    assert client.asked_asynchronously == [{0: 5}, {0: 9}]
    assert works[0].committed == (5 if error is None else None)
    assert len(reported.of(CommitFailed)) == (error is not None)
