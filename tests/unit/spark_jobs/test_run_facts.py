"""Facts from telemetry."""

from __future__ import annotations

from tests.unit.spark_jobs.synthetic_run import assigned, clean_run, revoked

from bench_spark.causes import Commit, Instant
from bench_spark.run_facts import facts_of
from lagbench.core.telemetry import (
    OffsetsCommitted,
    PodSeen,
    PodStopped,
    Record,
    SigtermReceived,
    encode_record,
)


def facts(*records: Record):  # noqa: ANN201
    """Return the facts in records."""
    return facts_of(encode_record(record).decode() for record in records)


def seen(pod: str, *, exit_code: int | None, gone_at: int | None, reason: str = "") -> PodSeen:
    """Return the record of a pod's life."""
    return PodSeen(
        at=500,
        source="recorder",
        pod=pod,
        created_at=0,
        started_at=0,
        ready_at=0,
        deleted_at=None,
        gone_at=gone_at,
        exit_code=exit_code,
        exit_reason=reason,
        precision_ns=1,
    )


def commit(at: int, pod: str, offset: int) -> OffsetsCommitted:
    """Return a commit on partition 0."""
    return OffsetsCommitted(at=at, source=pod, member_id="m", offsets={"0": offset}, cause="revoke")


def test_totals_come_from_the_producer() -> None:
    """A finished stream gives planned, acked, failed and unknown."""
    found = facts(*clean_run(count=100).telemetry)

    assert (found.planned, found.acked, found.failed, found.unknown) == (100, 100, 0, 0)


def test_silent_producer_leaves_totals_unknown() -> None:
    """Without the producer's records nothing is known, and nothing is zero."""
    found = facts()

    assert (found.planned, found.acked, found.failed, found.unknown) == (None, None, None, None)


def test_rebalances_are_kept_by_partition() -> None:
    """Every partition named by an assignment or a revocation has the instant."""
    found = facts(revoked(20, "a", [1], [0]), assigned(10, "a", [0, 1], [0, 1]))

    assert found.causes.rebalances == {
        0: [Instant(10, "rebalance", "a")],
        1: [Instant(10, "rebalance", "a"), Instant(20, "rebalance", "a")],
    }
    assert found.assignments == [(0, "a", 10), (1, "a", 10)]


def test_pod_that_vanished_was_killed() -> None:
    """Exit 137 is a kill; a pod that is gone without a word was killed too."""
    found = facts(
        seen("a", exit_code=137, gone_at=400),
        seen("b", exit_code=None, gone_at=300),
        seen("c", exit_code=1, gone_at=None, reason="OOMKilled"),
    )

    assert found.causes.fates == {
        "a": [Instant(400, "killed", "a")],
        "b": [Instant(300, "killed", "b")],
        "c": [Instant(500, "killed", "c")],
    }


def test_pod_that_failed_as_a_whole_was_killed() -> None:
    """Its node was lost: no exit code, the object stays, the phase is Failed."""
    lost = seen("a", exit_code=None, gone_at=None)
    lost.phase = "Failed"

    assert facts(lost).causes.fates == {"a": [Instant(500, "killed", "a")]}


def test_pod_that_ended_by_itself_was_not_killed() -> None:
    """A pod that said goodbye has its SIGTERM as fate; one that still runs has none."""
    stopped = PodStopped(
        at=300, source="a", reason="sigterm", is_drained=True, abandoned=0, processed_total=1
    )
    sigterm = SigtermReceived(at=200, source="a", queued=0, in_flight=0)

    found = facts(
        sigterm,
        stopped,
        seen("a", exit_code=0, gone_at=400),
        seen("b", exit_code=None, gone_at=None),
    )

    assert found.causes.fates == {"a": [Instant(200, "sigterm", "a")]}


def test_commit_that_moves_back_is_counted() -> None:
    """A commit below the group's offset is counted and does not become the offset."""
    found = facts(commit(1, "a", 10), commit(2, "b", 30), commit(3, "a", 20), commit(4, "b", 30))

    assert found.commits_moved_back == 1
    assert found.causes.commits == {0: [Commit(10, 1, "a"), Commit(30, 2, "b")]}
