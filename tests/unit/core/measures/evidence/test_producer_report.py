"""What the producer reports, and what waits in its client."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.telemetry import SECOND, ns, of

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
    acked = 500_000 - waiting - failed
    counts = {"planned": 500_000, "sent": 500_000, "acked": acked, "failed": failed}
    return of(ProducerProgress, second, "producer", **counts)


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


def test_what_failed_and_what_the_tail_sends_is_no_backlog() -> None:
    """What failed is another reason; after the planned window the base load continues."""
    assert held_back([report(20, 5, failed=100_000)], LOAD, 0) == ()
    assert held_back([started(), report(60, 1900)], LOAD, 0) == ()


def test_a_backlog_reaches_from_the_report_before_to_the_one_after() -> None:
    """In between nobody knows how much waited."""
    found = held_back([report(19, 0), report(20, 30_000), report(21, 0)], LOAD, 0)

    assert [(period.started_at, period.ended_at) for period in found] == [
        (19 * SECOND, 21 * SECOND)
    ]


def started(second: float = 0) -> StreamStarted:
    """Return the producer's first word, with a tail."""
    planned = {"stream_started_at": ns(second), "planned_total": LOAD.total}
    return of(StreamStarted, second, "producer", **planned, tail_rate_per_second=2000)


def finished(**fields: Any) -> StreamFinished:
    """Return the producer's last word on 100 messages."""
    counts = {"planned": 100, "sent": 100, "acked": 100, "reason": "completed"}
    lateness = {"lateness_p50_ms": 1.0, "lateness_p99_ms": 2.0, "lateness_max_ms": 3.0}
    return of(StreamFinished, 99, "producer", **(counts | lateness | fields))


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
    found = list(unkept_plan(run, None))

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


@pytest.mark.parametrize(
    ("seqs", "ranges"),
    [
        ([], []),  # none is told as such; None would mean not told
        ([7, 3, 4, 2, 9], [(2, 4), (7, 7), (9, 9)]),  # in any order
        ([0, 2, 4], [(0, 0), (2, 2), (4, 4)]),
        ([0, 2, 4, 6], None),  # more than allowed: none is told
    ],
)
def test_neighbours_are_one_range(seqs: list[int], ranges: list[tuple[int, int]] | None) -> None:
    """At most three ranges are told."""
    assert ranges_of(seqs, most=3) == ranges


@given(st.sets(st.integers(0, 60)))
def test_the_ranges_are_the_seqs(seqs: set[int]) -> None:
    """Unfolded again, the ranges hold each seq and nothing else."""
    ranges = ranges_of(sorted(seqs, reverse=True)) or []

    assert [seq for first, last in ranges for seq in range(first, last + 1)] == sorted(seqs)


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


def test_a_sawtooth_runs_from_its_first_spike_to_its_last() -> None:
    """Two bursts: first start, last end; the producer says when it had flushed."""
    window = window_of(SAWTOOTH, started(5), finished())

    assert (window.first_spike_started_at, window.last_spike_ended_at) == (15 * SECOND, 65 * SECOND)
    assert (window.spikes, window.base_rate_per_second, window.spike_rate_per_second) == (
        2,
        600,
        6000,
    )
    assert [spike.started_at for spike in window.spike_windows] == [15 * SECOND, 45 * SECOND]
    assert (window.planned_until_at, window.stream_ended_at) == (70 * SECOND, 99 * SECOND)


def test_the_scenario_says_when_the_load_changed() -> None:
    """No record of the producer survived: the start is the manifest's, or unknown."""
    window, nowhere = window_of(SAWTOOTH, start=5 * SECOND), window_of(SAWTOOTH)

    assert (window.first_spike_started_at, window.last_spike_ended_at) == (15 * SECOND, 65 * SECOND)
    assert window.stream_ended_at == 70 * SECOND
    assert (nowhere.spikes, nowhere.first_spike_started_at) == (2, None)
