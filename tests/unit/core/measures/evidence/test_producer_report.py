"""What the producer reports, and what waits in its client."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagbench.core.measures.doubts.doubts_of_load import unkept_plan
from lagbench.core.measures.evidence.producer_report import (
    LoadWindow,
    SeqRanges,
    generator,
    held_back,
    load_window,
)
from lagbench.core.scenario.offered_load import load_spikes, offered_load
from lagbench.core.scenario.profiles import BurstyProfile, Profile, StepProfile
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    ProducerProgress,
    StreamFinished,
    StreamStarted,
)

SECOND = 1_000_000_000

LOAD = offered_load(
    StepProfile(
        kind="step",
        rate_per_second=2000,
        spike_mult=10,
        before_seconds=10,
        spike_hold_seconds=20,
        after_seconds=10,
    )
)


def report(second: float, waiting: int, failed: int = 0) -> ProducerProgress:
    """Return the producer's report with ``waiting`` messages that Kafka has not taken."""
    return ProducerProgress(
        at=round(second * SECOND),
        source="producer",
        planned=500_000,
        sent=500_000,
        acked=500_000 - waiting - failed,
        failed=failed,
        lateness_p50_ms=None,
        lateness_p99_ms=None,
        lateness_max_ms=None,
    )


@pytest.mark.parametrize(
    ("second", "waiting", "is_too_much"),
    [
        (5, 1999, False),
        (5, 2001, True),
        (20, 19_999, False),
        (20, 20_001, True),
        (10.5, 19_000, False),  # the spike's first second
        (30.5, 19_000, False),  # its last second is within the one before
        (31.5, 3000, True),
        (45, 999, False),  # after the stream, without a tail: never less than 1,000
        (45, 1001, True),
    ],
)
def test_one_second_of_the_planned_rate_may_wait(
    second: float, waiting: int, is_too_much: bool
) -> None:
    """The highest rate of the second before counts."""
    assert bool(held_back([report(second, waiting)], LOAD, 0)) is is_too_much


def test_the_tails_rate_counts_after_the_planned_window() -> None:
    """The base load continues."""
    records: list[TelemetryRecord] = [started(), report(60, 1900)]

    assert held_back(records, LOAD, 0) == ()


def test_what_failed_waits_no_more() -> None:
    """It is another reason."""
    assert held_back([report(20, 5, failed=100_000)], LOAD, 0) == ()


def test_a_backlog_reaches_from_the_report_before_to_the_one_after() -> None:
    """In between nobody knows how much waited."""
    found = held_back([report(19, 0), report(20, 30_000), report(21, 0)], LOAD, 0)

    assert [(period.started_at, period.ended_at) for period in found] == [
        (19 * SECOND, 21 * SECOND)
    ]


def started() -> StreamStarted:
    """Return the producer's first word, with a tail."""
    return StreamStarted(
        at=0,
        source="producer",
        stream_started_at=0,
        seed=1,
        profile="step",
        planned_total=LOAD.total,
        planned_seconds=40,
        partitions=4,
        tail_rate_per_second=2000,
        tail_most_seconds=600,
    )


def finished(**fields: Any) -> StreamFinished:
    """Return the producer's last word on 100 messages."""
    counts = {"planned": 100, "sent": 100, "acked": 100, "failed": 0, "unknown": 0}
    lateness = {"lateness_p50_ms": 1.0, "lateness_p99_ms": 2.0, "lateness_max_ms": 3.0}
    said = {"fell_behind": False, "reason": "completed", "stream_sha256": "00"}
    return StreamFinished(
        at=99 * SECOND, source="producer", **{**counts, **lateness, **said, **fields}
    )


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (finished(fell_behind=True, reason="1.2 s"), "1.2 s"),
        (finished(lateness_p99_ms=101.0), "fell behind"),
        (finished(lateness_max_ms=1001.0), "fell behind"),
        (finished(acked=97, failed=3), "97 of 100"),
        (finished(unknown=1, acked=99), "99 of 100"),
        (finished(planned=400), "100 of 400"),
        (report(20, 1), "never reported"),
        (finished(lateness_p99_ms=100.0, lateness_max_ms=1000.0), ""),
    ],
)
def test_a_producer_that_did_not_keep_its_plan_made_another_load(
    last: StreamFinished | ProducerProgress, reason: str
) -> None:
    """Late, stopped, refused, or never heard of again; at its limits it is in time."""
    run = SimpleNamespace(records=[last], offered=SimpleNamespace(total=100))
    found = list(unkept_plan(run, None))  # type: ignore[arg-type]

    assert [reason in text for text in found] == [True] * bool(reason)


def test_the_last_report_counts_and_the_whole_stream_was_planned() -> None:
    """The final record before progress; planned is the whole stream."""
    made = generator([started(), report(20, 1, failed=2), finished()])

    assert (made.planned, made.sent, made.failed) == (LOAD.total, 100, 2)
    assert (made.fell_behind, made.most_waiting) == (False, 1)
    assert generator([report(20, 1)]).fell_behind is None
    assert generator([]).planned is None


def ranges_of(seqs: list[int], most: int = 1000) -> list[tuple[int, int]] | None:
    """Return the ranges of seqs added in this order."""
    found = SeqRanges()
    for seq in seqs:
        found.add(seq)
    return found.ranges(most=most)


def test_none_is_an_empty_list() -> None:
    """Nothing failed is told as such; None would mean not told."""
    assert ranges_of([]) == []


def test_neighbours_are_one_range() -> None:
    """In any order, each seq is in the range of its neighbours."""
    assert ranges_of([7, 3, 4, 2, 9]) == [(2, 4), (7, 7), (9, 9)]


def test_more_ranges_than_allowed_are_not_reported() -> None:
    """At the limit they are told, beyond it none is."""
    assert ranges_of([0, 2, 4], most=3) == [(0, 0), (2, 2), (4, 4)]
    assert ranges_of([0, 2, 4, 6], most=3) is None


@given(st.sets(st.integers(0, 60)))
def test_the_ranges_are_the_seqs(seqs: set[int]) -> None:
    """Unfolded again, the ranges hold each seq and nothing else."""
    ranges = ranges_of(sorted(seqs, reverse=True)) or []

    assert [seq for first, last in ranges for seq in range(first, last + 1)] == sorted(seqs)


FLUSHED = StreamFinished(
    at=99 * SECOND,
    source="producer",
    planned=100,
    sent=100,
    acked=100,
    failed=0,
    unknown=0,
    lateness_p50_ms=1,
    lateness_p99_ms=2,
    lateness_max_ms=3,
    fell_behind=False,
    reason="",
    stream_sha256="00",
)

SAWTOOTH = BurstyProfile(
    kind="bursty",
    rate_per_second=600,
    spike_mult=10,
    quiet_seconds=10,
    spike_hold_seconds=20,
    bursts=2,
    after_seconds=5,
)


def window_of(profile: Profile, *records: TelemetryRecord, start: int | None = None) -> LoadWindow:
    """Return the load window of ``profile``."""
    load = offered_load(profile)
    spikes = load_spikes(load, started_replicas=1, pod_rate=1000)
    return load_window(records, load, spikes, recorded_start_at=start)


def started_of_load_window(at: int = 5 * SECOND) -> StreamStarted:
    """Return the producer's first word."""
    return StreamStarted(
        at=at,
        source="producer",
        stream_started_at=at,
        seed=1,
        profile="bursty",
        planned_total=400,
        planned_seconds=40,
        partitions=4,
    )


def test_a_sawtooth_runs_from_its_first_spike_to_its_last() -> None:
    """Two bursts: first start, last end; the producer says when it had flushed."""
    window = window_of(SAWTOOTH, started_of_load_window(), FLUSHED)

    assert (window.first_spike_started_at, window.last_spike_ended_at) == (15 * SECOND, 65 * SECOND)
    assert (window.spikes, window.base_rate_per_second, window.spike_rate_per_second) == (
        2,
        600,
        6000,
    )
    assert [spike.started_at for spike in window.spike_windows] == [15 * SECOND, 45 * SECOND]
    assert (window.planned_until_at, window.stream_ended_at) == (70 * SECOND, 99 * SECOND)


def test_the_scenario_says_when_the_load_changed() -> None:
    """No record of a step survived, nor the producer's first word: the manifest has the start."""
    window = window_of(SAWTOOTH, start=5 * SECOND)

    assert (window.first_spike_started_at, window.last_spike_ended_at) == (15 * SECOND, 65 * SECOND)
    assert window.stream_ended_at == 70 * SECOND


def test_without_a_start_the_spikes_are_planned_but_nowhere() -> None:
    """Their instants are not known, which is not that there are none."""
    window = window_of(SAWTOOTH)

    assert (window.spikes, window.first_spike_started_at) == (2, None)
