"""Facts from telemetry."""

from __future__ import annotations

import pytest
from tests.unit.spark_jobs.synthetic_run import assigned, clean_run, revoked

from lagbench.core.ownership.causes import Commit, Instant
from lagbench.core.ownership.run_facts import RunFacts, facts_of
from lagbench.core.telemetry.records import encode_record
from lagbench.core.telemetry.records_of_programs import (
    OffsetsCommitted,
    PodStopped,
    Record,
    SigtermReceived,
    StreamFinished,
    StreamStarted,
)
from lagbench.core.telemetry.records_of_recorder import ClockOffset, PodSeen
from lagbench.shared_with_spark import message_classes


def facts(*records: Record):  # noqa: ANN201
    """Return the facts in records."""
    return facts_of(encode_record(record).decode() for record in records)


def seen(pod: str, *, exit_code: int | None, gone_at: int | None, reason: str = "") -> PodSeen:
    """Return the record of a pod's timeline."""
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
    assert {(h.partition, h.pod, h.from_at) for h in found.holdings.held} == {
        (0, "a", 10),
        (1, "a", 10),
    }


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


def test_each_kill_of_a_restarted_container_is_kept() -> None:
    """The exit code stays the same in its pod; the number of ends tells the kills apart."""
    reported = []
    for at, ended in ((100, 0), (200, 1), (250, 1), (300, 2), (320, 1), (350, 2)):
        record = seen("a", exit_code=137 if at > 100 else None, gone_at=None)
        record.at, record.containers_ended = at, ended
        reported.append(record)
    removed = seen("a", exit_code=137, gone_at=400)
    removed.containers_ended = 2
    next_life = seen("a", exit_code=137, gone_at=450)
    next_life.created_at, next_life.containers_ended = 410, 1

    found = facts(*reported, removed, next_life)

    assert found.kills == {"a": [200, 300, 450]}
    assert [instant.at for instant in found.causes.fates["a"]] == [200, 300, 450]


def test_older_records_tell_one_kill_of_a_pod_object() -> None:
    """They repeat the exit code and do not count the ends: a repetition is no kill."""
    restarted = seen("a", exit_code=137, gone_at=None)
    restarted.at = 200

    assert facts(restarted, seen("a", exit_code=137, gone_at=400)).kills == {"a": [200]}


def test_pod_that_failed_as_a_whole_was_killed() -> None:
    """Its node was lost: no exit code, the object stays, the phase is Failed."""
    lost = seen("a", exit_code=None, gone_at=None)
    lost.phase = "Failed"

    assert facts(lost).causes.fates == {"a": [Instant(500, "killed", "a")]}


def test_pod_that_ended_by_itself_was_not_killed() -> None:
    """A pod that said goodbye has its SIGTERM as fate; one that still runs has none."""
    stopped = PodStopped(
        at=300, source="a", reason="sigterm", is_graceful=True, abandoned=0, processed_total=1
    )
    sigterm = SigtermReceived(at=200, source="a", queued=0, in_flight=0)

    found = facts(
        sigterm,
        stopped,
        seen("a", exit_code=0, gone_at=400),
        seen("b", exit_code=None, gone_at=None),
    )

    assert found.causes.fates == {"a": [Instant(200, "sigterm", "a")]}


def test_only_commits_that_move_on_are_causes() -> None:
    """A callback that tells an older commit later does not become the offset."""
    found = facts(commit(1, "a", 10), commit(2, "b", 30), commit(3, "a", 20), commit(4, "b", 30))

    assert found.causes.commits == {0: [Commit(10, 1, "a"), Commit(30, 2, "b")]}


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "[1]",
        '{"kind": "partitions_assigned", "at": 1, "source": "a"}',
        (
            '{"kind": "partitions_assigned", "at": 1, "source": "a", "partitions": ["x"],'
            ' "owned": [], "rebalance": 1}'
        ),
        '{"kind": "pod_seen", "at": "now", "source": "recorder", "pod": "a"}',
        '{"kind": "offsets_committed", "at": 1, "source": "a", "offsets": {"x": 1}}',
        (
            '{"kind": "stream_started", "at": 1, "source": "p", "stream_started_at": 1,'
            ' "planned_total": 1, "planned_seconds": Infinity}'
        ),
    ],
)
def test_a_record_that_lacks_what_its_kind_has_is_counted(text: str) -> None:
    """The job continues without it."""
    found = facts_of([text, encode_record(commit(1, "a", 10)).decode()])

    assert found.strangers == 1
    assert found.causes.commits == {0: [Commit(10, 1, "a")]}


def test_failed_deliveries_are_known_by_seq_or_not_at_all() -> None:
    """Ranges as told; none failed needs no telling; a number without seqs names none."""
    _, finished, *_ = clean_run(count=100).telemetry
    assert isinstance(finished, StreamFinished)
    assert facts(finished).failed_seqs == []
    finished.failed = 3
    assert facts(finished).failed_seqs is None
    finished.failed_seqs = [(4, 6)]
    assert facts(finished).failed_seqs == [(4, 6)]


def test_the_plan_bounds_seqs_and_planned_offsets() -> None:
    """Ten seconds of 100 messages, 10/s of tail for five more: nothing lies beyond."""
    started, finished, *_ = clean_run(count=100).telemetry
    assert isinstance(started, StreamStarted)
    assert facts(started, finished).plan.seqs == 100
    started.tail_rate_per_second, started.tail_most_seconds = 10.0, 5.0

    plan = facts(started).plan

    assert plan.seqs is not None
    assert 150 <= plan.seqs < 160
    assert plan.offset_ns is not None
    assert 15_000_000_000 <= plan.offset_ns <= 16_000_000_000
    assert plan.sample_ns == 10_000_000_000


def test_stamps_of_pods_are_on_the_recorders_clock() -> None:
    """Pod a's node is 500 ms ahead: its assignment was earlier than it says."""
    ahead = ClockOffset(
        at=1,
        source="recorder",
        clock="node-1",
        pods=["a"],
        low_ns=499_000_000,
        high_ns=501_000_000,
        answers=9,
        since_at=0,
    )
    texts = [encode_record(r).decode() for r in (ahead, assigned(600_000_000, "a", [0], [0]))]

    (held,) = facts_of(texts, fidelity="kubernetes").holdings.held
    (as_stamped,) = facts_of(texts, fidelity="processes").holdings.held

    assert (held.from_at, as_stamped.from_at) == (100_000_000, 600_000_000)


SECOND = 1_000_000_000


def silent_facts(*, are_silent: bool) -> RunFacts:
    """Return the facts of a pod that was deleted at 40 s and ended by the signal."""
    ended = seen("consumer-a", gone_at=41 * SECOND, exit_code=143)
    ended.deleted_at = 40 * SECOND
    return facts_of([encode_record(ended).decode()], are_silent=are_silent)


def test_a_silent_pods_deletion_is_its_sigterm() -> None:
    """It is no kill: the pod got the signal, and its code did nothing with it."""
    found = silent_facts(are_silent=True)

    assert found.kills == {}
    (blame,) = found.causes.blame(
        message_classes.DUPLICATED, 0, ("consumer-b", "consumer-a"), [(7, 50 * SECOND)]
    )
    assert (blame.cause, blame.cause_pod, blame.cause_at) == (
        "sigterm",
        "consumer-a",
        40 * SECOND,
    )


def test_lagbenchs_own_pods_report_their_sigterm_themselves() -> None:
    """One of them that ends without a report was killed."""
    assert silent_facts(are_silent=False).kills == {"consumer-a": [41 * SECOND]}


def test_the_owner_of_an_output_topic_stands_for_every_pod() -> None:
    """The pod is not known, so the last end of any pod before the repeat is the cause."""
    (blame,) = silent_facts(are_silent=True).causes.blame(
        message_classes.DUPLICATED, 0, ("output-3", "output-3"), [(7, 50 * SECOND)]
    )

    assert (blame.cause, blame.cause_pod) == ("sigterm", "consumer-a")
