"""Bounding another clock's offset from whole seconds."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.telemetry import SECOND, of, pod_seen

from lagbench.core.clocks import API_SERVER, ONE_CLOCK, OffsetBound, clock_set, on_recorders_clock
from lagbench.core.measures.doubts.doubts_of_load import clock_steps
from lagbench.core.measures.doubts.doubts_of_policy import Window
from lagbench.core.measures.evidence.clock_readings import (
    ClockReading,
    ClockSteps,
    RunningBound,
    answer_bound,
    clocks_measure,
    closest_reading,
    probe_at,
)
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import ClockStepped, GroupJoined, StreamStarted
from lagbench.core.telemetry.records_of_recorder import ClockOffset

MILLISECOND = 1_000_000
START_AT = 1_795_255_202 * SECOND


def ask(offset_ns: int, sent_at: int, there_ns: int, back_ns: int) -> OffsetBound:
    """Return what a clock that is ``offset_ns`` ahead answers."""
    stamped = sent_at + there_ns + offset_ns
    second_at = stamped // SECOND * SECOND
    return answer_bound(
        second_at=second_at, sent_at=sent_at, received_at=sent_at + there_ns + back_ns
    )


@given(
    st.integers(-(10**10), 10**10),
    st.lists(
        st.tuples(st.integers(0, SECOND), st.integers(0, SECOND // 10), st.integers(0, SECOND)),
        min_size=1,
    ),
)
def test_the_bound_of_all_answers_holds_the_true_offset(
    offset_ns: int, answers: list[tuple[int, int, int]]
) -> None:
    """However late the answers are, a steady clock never contradicts itself."""
    running, at = RunningBound(), START_AT

    for pause, there, back in answers:
        at += pause
        bound = running.take(ask(offset_ns, at, there, back), at=at)
        assert bound.low_ns <= offset_ns <= bound.high_ns

    assert running.answers == len(answers)


@given(st.integers(-(10**10), 10**10))
def test_twelve_probes_leave_little_more_than_one_answer_takes(offset_ns: int) -> None:
    """A second halves with each answer that meets the turn of a second, down to 4 ms there."""
    running, at = RunningBound(), START_AT

    for _ in range(12):
        at = probe_at(running.bound, at + SECOND // 2, lead_ns=2 * MILLISECOND)
        running.take(ask(offset_ns, at, 2 * MILLISECOND, 2 * MILLISECOND), at=at)

    assert running.bound is not None
    assert running.bound.low_ns <= offset_ns <= running.bound.high_ns
    assert running.bound.width_ns <= 5 * MILLISECOND


def test_a_clock_that_steps_starts_a_new_period() -> None:
    """Set back by 3 s, its answers contradict the earlier ones."""
    running = RunningBound()
    running.take(ask(0, START_AT, 0, 0), at=START_AT)
    stepped_at = START_AT + 10 * SECOND

    bound = running.take(ask(-3 * SECOND, stepped_at, 0, 0), at=stepped_at)

    assert bound.low_ns <= -3 * SECOND <= bound.high_ns
    assert (running.since_at, running.answers) == (stepped_at, 1)


NS = SECOND
STARTED_AT = 1_795_000_000 * NS


def reading(seconds: float, *, stepped: float = 0.0, width: float = 0.0) -> ClockReading:
    """Read both clocks after some seconds; the wall clock has been moved by ``stepped`` seconds."""
    before = round(seconds * NS)
    return ClockReading(
        before, STARTED_AT + before + round(stepped * NS), before + round(width * NS)
    )


def steps_of(*readings: ClockReading) -> list[float | None]:
    """Take readings after one at 0 s."""
    steps = ClockSteps(reading(0))
    return [steps.take(found) for found in readings]


@pytest.mark.parametrize("step", [-3600.0, -0.15, 0.15, 30.0, 86_400.0])
def test_a_step_is_reported_once_with_its_size(step: float) -> None:
    """Back is below 0; a suspended machine is a step forward. Then the difference is ordinary."""
    found = steps_of(reading(1), reading(2, stepped=step), reading(3, stepped=step))

    assert found == [None, pytest.approx(step), None]


def test_what_comes_apart_slowly_is_no_step_until_it_is_one_in_all() -> None:
    """Up to a tenth of a second is none; many small ones are told when together they are more."""
    found = steps_of(*(reading(n, stepped=0.03 * n) for n in range(1, 5)))

    assert found == [None, None, None, pytest.approx(0.12)]
    assert steps_of(reading(1, stepped=0.1), reading(2, stepped=-0.1)) == [None, None]


def test_a_reading_that_was_interrupted_proves_no_step() -> None:
    """A process that waited for 0.4 s between the clocks saw none; the next reading tells one."""
    late = reading(1, stepped=0.0, width=0.4)

    assert steps_of(late, reading(2)) == [None, None]
    assert steps_of(reading(1, stepped=0.2, width=0.4), reading(2, stepped=0.2)) == [
        None,
        pytest.approx(0.2),
    ]


def test_the_most_exact_reading_is_taken() -> None:
    """Of several the one between whose clocks the process waited least."""
    widths = iter([0.3, 0.001, 0.2])

    assert closest_reading(lambda: reading(1, width=next(widths)), tries=3).width_ns == NS // 1000


def offset(
    low: int, high: int, *, clock: str = API_SERVER, since: int = 0, pods: tuple[str, ...] = ()
) -> ClockOffset:
    """Return what the recorder says of a clock, in milliseconds."""
    return of(
        ClockOffset,
        (since + 10) / SECOND,
        clock=clock,
        pods=list(pods),
        low_ns=low * MILLISECOND,
        high_ns=high * MILLISECOND,
        answers=3,
        since_at=since,
    )


def test_the_embedded_bench_has_one_clock() -> None:
    """Everything runs on one machine, whatever was recorded."""
    found = clock_set([offset(100, 200)], "processes")

    assert found is ONE_CLOCK
    clock = found.of_pod("any")
    assert clock is not None
    assert (clock.shift_ns, clock.error_ns) == (0, 0)


@pytest.mark.parametrize(
    ("offsets", "shift", "error"),
    [
        ([(-500, 400), (-10, 30)], 0, 30),  # it may be none: the stamps stay, and may be off
        ([(4980, 5020)], 5000, 20),  # surely ahead: 5 s come off
    ],
)
def test_a_known_offset_is_taken_off_and_the_rest_is_an_error(
    offsets: list[tuple[int, int]], shift: int, error: int
) -> None:
    """In milliseconds; of a pod's node and of the API server alike."""
    records = [offset(*bound, clock=API_SERVER, pods=("a",)) for bound in offsets]
    found = clock_set([*records, pod_seen("a")], "kubernetes")

    for clock in (found.of_api_server(), found.of_pod("a")):
        assert clock is not None
        assert (clock.shift_ns, clock.error_ns) == (shift * MILLISECOND, error * MILLISECOND)


def test_a_drifting_clock_is_undetermined_within_its_periods() -> None:
    """Two periods that exclude each other: what holds for both is stated, and that it moved."""
    records: list[TelemetryRecord] = [offset(-10, 10), offset(60, 80, since=99)]

    measure = clocks_measure(clock_set(records, "kubernetes"))

    (bound,) = measure.bounds
    assert (bound.low_seconds, bound.high_seconds, bound.is_steady) == (-0.01, 0.08, False)
    assert bound.answers == 6


def test_a_clock_that_nobody_asked_is_not_zero() -> None:
    """A pod whose node never answered has no clock, and the run says so."""
    found = clock_set(
        [offset(-1, 1, clock="node-1", pods=("a",)), pod_seen("a"), pod_seen("b")], "kubernetes"
    )

    assert found.of_pod("b") is None
    assert found.of_api_server() is None
    assert clocks_measure(found).unbounded_pods == ("b",)


def test_a_deployments_name_has_the_clock_that_its_pods_share() -> None:
    """The autoscaler's one pod is on n1; consumers are on two nodes, so theirs is not one."""
    records: list[TelemetryRecord] = [
        offset(-1, 1, clock="n1", pods=("autoscaler-1", "consumer-1")),
        offset(-1, 1, clock="n2", pods=("consumer-2",)),
    ]

    found = clock_set(records, "kubernetes")

    assert found.of_pod("autoscaler") == found.by_name["n1"]
    assert found.of_pod("consumer") is None


def joined(at: int, source: str) -> GroupJoined:
    """Return a pod's join, stamped by its own clock."""
    return of(GroupJoined, at / 1000, source)


def test_each_record_is_shifted_by_its_owners_clock_once() -> None:
    """Pod b is 5 s ahead, a may be right, c's clock nobody asked; the recorder's own stay."""
    records: list[TelemetryRecord] = [
        offset(-2, 2, clock="n-a", pods=("a",)),
        offset(4990, 5010, clock="n-b", pods=("b", "recorder")),
        joined(6000, "a"),
        joined(7000, "c"),
        joined(10_000, "b"),
    ]

    found = on_recorders_clock(records, clock_set(records, "kubernetes"))

    assert [(r.source, r.at // MILLISECOND) for r in found if isinstance(r, GroupJoined)] == [
        ("b", 5000),
        ("a", 6000),
        ("c", 7000),
    ]
    assert [r.at for r in found if isinstance(r, ClockOffset)] == [10, 10]
    assert on_recorders_clock(records, ONE_CLOCK) == records


def test_the_start_of_the_stream_is_shifted_with_its_record() -> None:
    """The plan's instants count from it."""
    started = of(StreamStarted, 9, "producer", stream_started_at=8 * SECOND)
    records: list[TelemetryRecord] = [
        offset(990, 1010, clock="n", pods=("producer",)),
        started,
    ]

    found = on_recorders_clock(records, clock_set(records, "kubernetes"))[-1]

    assert isinstance(found, StreamStarted)
    assert (found.at, found.stream_started_at) == (
        8_000 * MILLISECOND,
        7_000 * MILLISECOND,
    )


def test_a_step_of_a_clock_counts_during_the_run() -> None:
    """Also one whose own stamp it moved out of it."""
    steps: list[TelemetryRecord] = [
        of(ClockStepped, at, "a", step_seconds=-4.0) for at in (2, 7, 50, 106)
    ]

    start = 10_000 * MILLISECOND
    run = SimpleNamespace(records=steps, load=SimpleNamespace(stream_started_at=start))
    found = list(clock_steps(run, Window(start, 100_000 * MILLISECOND, ())))

    assert len(found) == 2
    assert re.findall(r"[+-]\d+\.\d+ s", found[1]) == ["-4.000 s", "+40.0 s"]


def test_the_error_of_several_pods_is_the_largest_of_their_clocks() -> None:
    """One pod without a bound has none, and neither have all."""
    near, far = (
        offset(-2, 1, clock="n1", pods=("pod-a",)),
        offset(-30, 10, clock="n2", pods=("pod-b",)),
    )
    found = clock_set([near, far], "kubernetes")

    assert found.error_seconds(["pod-a"]) == 0.002
    assert found.error_seconds(["pod-a", "pod-b"]) == 0.03
    assert found.error_seconds(["pod-a", "elsewhere"]) is None
    assert found.error_seconds([]) == ONE_CLOCK.error_seconds(["pod-a"]) == 0
