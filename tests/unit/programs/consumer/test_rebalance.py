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
from lagbench.programs.consumer.offset_commits import OffsetCommits
from lagbench.programs.consumer.pod_reports import PodCounts, PodReports
from lagbench.programs.consumer.rebalance import GroupIdentity, Rebalancing
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
        reports = PodReports(options, self.reported, self.pod_counts, SteadyClock())
        self.queues = WorkQueues(1, reports.first_record_done)
        client = cast("Any", self.client)
        commits = OffsetCommits(client, "events", reports, interval_seconds=1)
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
    """Everything goes and comes back under one number, with one duration."""
    member = Member("--balancer=range")
    member.assign(0, 1)
    member.revoke(0, 1)
    member.assign(0)

    numbers = [(type(record).__name__, record.rebalance) for record in member.reported.records[1:]]  # type: ignore[attr-defined]
    assert numbers == [
        ("PartitionsAssigned", 1),
        ("PartitionsRevoked", 2),
        ("PartitionsAssigned", 2),
    ]
    assert member.pod_counts.rebalances_total == 2
    assert len(member.pod_counts.rebalance_seconds) == 2
    assert member.pod_counts.assigned_partitions == 1


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


def test_lost_partitions_are_dropped_without_a_commit() -> None:
    """Others have them already: a commit would be rejected, or worse, taken."""
    member = Member()
    member.assign(0)
    member.finish(member.begin(0, count=3, queued=4))

    member.lose(0)

    assert member.client.committed == {}
    assert member.reported.of(PartitionsRevoked)[0].is_lost
    assert member.queues.counts().assigned == 0


def test_without_a_graceful_shutdown_a_revoke_gives_up_at_once() -> None:
    """--drain off neither waits nor commits."""
    member = Member("--drain=off")
    member.assign(0)
    member.finish(member.begin(0, count=3, queued=4))

    member.revoke(0)

    assert member.client.committed == {}


def test_a_partition_that_comes_back_is_not_paused() -> None:
    """The client keeps an old pause over a reassignment; the member lifts it."""
    member = Member("--balancer=range")
    member.assign(0)
    member.client.paused = {0}
    member.revoke(0)

    member.assign(0)

    assert member.client.paused == set()


def test_joining_is_reported_once() -> None:
    """A member id is news only the first time."""
    member = Member()
    member.assign(0)
    member.assign(1)

    assert len(member.reported.of(GroupJoined)) == 1
    assert member.reported.of(PartitionsAssigned)[1].owned == [0, 1]


OPTIONS = parse_options(
    ["--run-id=a"], {"POD_NAME": "pod-a", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
)


def commits_of(client: FakeClient, reported: Reported) -> OffsetCommits:
    """Commit with no interval between."""
    reports = PodReports(OPTIONS, reported, PodCounts(), SteadyClock())
    return OffsetCommits(cast("Any", client), "events", reports, interval_seconds=0)


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


@pytest.mark.parametrize("cause", ["revoke", "shutdown"])
@pytest.mark.parametrize(
    "code",
    [
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
    ],
)
def test_a_refusal_that_passes_is_tried_again(
    code: int, cause: Literal["revoke", "shutdown"]
) -> None:
    """It is reported and repeated, although no error of the client calls itself retriable."""
    assert not KafkaError(code).retriable()
    client, reported = FakeClient(), Reported()
    client.refusals = [code]

    assert commits_of(client, reported).commit_now([work(0, 5)], cause, 5)

    assert client.committed == {0: 5}
    assert [failure.offsets for failure in reported.of(CommitFailed)] == [{"0": 5}]


@pytest.mark.parametrize(
    "code", [KafkaError.UNKNOWN_MEMBER_ID, KafkaError.GROUP_AUTHORIZATION_FAILED]
)
def test_a_refusal_for_good_is_not_repeated(code: int) -> None:
    """A member that the group has put out has nothing to wait for."""
    client, reported = FakeClient(), Reported()
    client.refusals = [code]

    assert not commits_of(client, reported).commit_now([work(0, 5)], "shutdown", 5)

    assert len(reported.of(CommitFailed)) == 1


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
    ],
)
def test_a_leaving_member_waits_for_the_generation_that_others_have_begun(code: int) -> None:
    """Nine pods left at once: a commit of the old generation is repeated until the new one."""
    client, reported = FakeClient(), Reported()
    client.refusals = [code] * 5

    assert commits_of(client, reported).commit_now([work(0, 5)], "shutdown", 5)

    assert client.committed == {0: 5}
    assert len(reported.of(CommitFailed)) == 5


def test_a_commit_of_an_old_generation_is_not_repeated_in_a_revocation() -> None:
    """The partitions have another owner: committing again would be no better."""
    client, reported = FakeClient(), Reported()
    client.refusals = [KafkaError.ILLEGAL_GENERATION] * 3

    assert not commits_of(client, reported).commit_now([work(0, 5)], "revoke", 5)

    assert client.committed == {}
    assert len(reported.of(CommitFailed)) == 1


def test_one_commit_is_under_way_at_a_time() -> None:
    """The next waits for the result of the one before, then takes what is new."""
    client, reported = FakeClient(), Reported()
    commits, works = commits_of(client, reported), [work(0, 5)]
    commits.commit_if_due(works)
    works[0].committable = 9
    commits.commit_if_due(works)

    commits.on_result(None, [TopicPartition("events", 0, 5)], works, "interval")
    commits.commit_if_due(works)

    assert client.asked_asynchronously == [{0: 5}, {0: 9}]
    assert works[0].committed == 5


def test_a_failed_interval_commit_is_reported_and_its_offsets_stay_due() -> None:
    """After a refusal the same offsets are asked for again."""
    client, reported = FakeClient(), Reported()
    commits, works = commits_of(client, reported), [work(0, 5)]
    commits.commit_if_due(works)

    error = KafkaError(KafkaError.REBALANCE_IN_PROGRESS)
    commits.on_result(error, [TopicPartition("events", 0, 5)], works, "interval")
    commits.commit_if_due(works)

    assert client.asked_asynchronously == [{0: 5}, {0: 5}]
    assert len(reported.of(CommitFailed)) == 1
