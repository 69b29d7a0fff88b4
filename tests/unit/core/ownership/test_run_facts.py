"""Facts from telemetry."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.telemetry import SECOND, of
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


def seen(
    pod: str,
    *,
    exit_code: int | None = None,
    gone_at: int | None = None,
    at: int = 500,
    **fields: Any,
) -> PodSeen:
    """Return the record of a pod's timeline."""
    return of(PodSeen, at=at, pod=pod, exit_code=exit_code, gone_at=gone_at, **fields)


def commit(at: int, pod: str, offset: int) -> OffsetsCommitted:
    """Return a commit on partition 0."""
    return of(OffsetsCommitted, at=at, source=pod, offsets={"0": offset})


def test_totals_come_from_the_producer() -> None:
    """A finished stream gives planned, acked, failed and unknown; a silent one none, not zero."""
    names = ("planned", "acked", "failed", "unknown")
    found, silent = facts(*clean_run(count=100).telemetry), facts()

    assert [getattr(found, name) for name in names] == [100, 100, 0, 0]
    assert [getattr(silent, name) for name in names] == [None] * 4


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


RESTARTED = [
    seen("a", exit_code=137 if at > 100 else None, at=at, containers_ended=ended)
    for at, ended in ((100, 0), (200, 1), (250, 1), (300, 2), (320, 1), (350, 2))
]
"""The exit code stays the same in its pod; the number of ends tells the kills apart."""


@pytest.mark.parametrize(
    ("records", "kills"),
    [
        ([seen("a", exit_code=137, gone_at=400)], [400]),
        ([seen("a", gone_at=300)], [300]),  # gone without a word
        ([seen("a", exit_code=1, exit_reason="OOMKilled")], [500]),
        ([seen("a", phase="Failed")], [500]),  # its node was lost: the object stays
        ([seen("a")], None),  # it still runs
        (
            [
                *RESTARTED,
                seen("a", exit_code=137, gone_at=400, containers_ended=2),
                seen("a", exit_code=137, gone_at=450, created_at=410, containers_ended=1),
            ],
            [200, 300, 450],
        ),
        # Older records repeat the exit code and do not count the ends.
        ([seen("a", exit_code=137, at=200), seen("a", exit_code=137, gone_at=400)], [200]),
    ],
)
def test_each_kill_of_a_pod_is_kept(records: list[PodSeen], kills: list[int] | None) -> None:
    """By its exit code, its phase, or because it is gone without having said so."""
    found = facts(*records)

    assert found.kills == ({} if kills is None else {"a": kills})
    assert found.causes.fates == (
        {} if kills is None else {"a": [Instant(at, "killed", "a") for at in kills]}
    )


def test_pod_that_ended_by_itself_was_not_killed() -> None:
    """A pod that said goodbye has its SIGTERM as fate."""
    sigterm, stopped = of(SigtermReceived, at=200, source="a"), of(PodStopped, at=300, source="a")

    found = facts(sigterm, stopped, seen("a", exit_code=0, gone_at=400))

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
    bound = {"low_ns": 499_000_000, "high_ns": 501_000_000}
    ahead = of(ClockOffset, at=1, clock="node-1", pods=["a"], answers=9, **bound)
    texts = [encode_record(r).decode() for r in (ahead, assigned(600_000_000, "a", [0], [0]))]

    (held,) = facts_of(texts, fidelity="kubernetes").holdings.held
    (as_stamped,) = facts_of(texts, fidelity="processes").holdings.held

    assert (held.from_at, as_stamped.from_at) == (100_000_000, 600_000_000)


def silent_facts(*, are_silent: bool) -> RunFacts:
    """Return the facts of a pod that was deleted at 40 s and ended by the signal."""
    ends = {"gone_at": 41 * SECOND, "deleted_at": 40 * SECOND}
    ended = seen("consumer-a", exit_code=143, **ends)
    return facts_of([encode_record(ended).decode()], are_silent=are_silent)


def test_a_silent_pods_deletion_is_its_sigterm() -> None:
    """It is no kill: the pod got the signal, and its code did nothing with it."""
    found = silent_facts(are_silent=True)

    # One of lagbench's own pods reports its SIGTERM itself: without a report it was killed.
    assert silent_facts(are_silent=False).kills == {"consumer-a": [41 * SECOND]}
    assert found.kills == {}
    (blame,) = found.causes.blame(
        message_classes.DUPLICATED, 0, ("consumer-b", "consumer-a"), [(7, 50 * SECOND)]
    )
    assert (blame.cause, blame.cause_pod, blame.cause_at) == (
        "sigterm",
        "consumer-a",
        40 * SECOND,
    )


def test_the_owner_of_an_output_topic_stands_for_every_pod() -> None:
    """The pod is not known, so the last end of any pod before the repeat is the cause."""
    (blame,) = silent_facts(are_silent=True).causes.blame(
        message_classes.DUPLICATED, 0, ("output-3", "output-3"), [(7, 50 * SECOND)]
    )

    assert (blame.cause, blame.cause_pod) == ("sigterm", "consumer-a")
