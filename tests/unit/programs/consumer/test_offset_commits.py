"""When offsets are committed."""

from __future__ import annotations

from typing import Any, Literal, cast

import pytest
from confluent_kafka import KafkaError, TopicPartition
from tests.unit.programs.consumer.fake_group import FakeClient, Reported

from lagbench.core.telemetry.records_of_programs import CommitFailed, OffsetsCommitted
from lagbench.programs.consumer.consumer_settings import parse_options
from lagbench.programs.consumer.offset_commits import OffsetCommits
from lagbench.programs.consumer.pod_reports import PodCounts, PodReports
from lagbench.programs.consumer.work_queues import PartitionWork
from lagbench.programs.steady_clock import SteadyClock

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
