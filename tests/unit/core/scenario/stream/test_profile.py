"""The offered load: counts, instants and steps of each profile."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagbench.core.scenario.profiles import (
    BurstyProfile,
    Stage,
    StagesProfile,
    SteadyProfile,
    StepProfile,
    TracePoint,
    TraceProfile,
)
from lagbench.core.scenario.stream.profile import NS, OfferedLoad, offered_load
from lagbench.core.scenario.trace_csv import trace_points
from lagbench.errors import WrongInput

QUICK = StepProfile(
    kind="step", rate_per_second=600, before_seconds=15, spike_hold_seconds=60, after_seconds=10
)


def steady(rate: float, seconds: float) -> OfferedLoad:
    """Return a load of one rate."""
    return offered_load(
        SteadyProfile(kind="steady", rate_per_second=rate, duration_seconds=seconds)
    )


def test_a_step_has_the_sum_of_its_three_parts() -> None:
    """600/s for 15 s, 6,000/s for 60 s and 600/s for 10 s are 375,000 events in 85 s."""
    load = offered_load(QUICK)

    assert load.total == 375_000
    assert load.duration_seconds == 85
    assert [load.planned_count(second) for second in (0, 15, 75, 85, 1e6)] == [
        0,
        9_000,
        369_000,
        375_000,
        375_000,
    ]


def test_a_spike_that_ends_the_stream_still_ends() -> None:
    """Without a period after it, the spike's end is the stream's end."""
    profile = QUICK.model_copy(update={"after_seconds": 0.0, "before_seconds": 0.0})

    steps = offered_load(profile).steps

    assert [(step.step, step.at_ns) for step in steps] == [
        ("spike_start", 0),
        ("spike_end", 60 * NS),
    ]


def test_a_sawtooth_repeats_its_burst() -> None:
    """Three bursts are three pairs of steps."""
    load = offered_load(
        BurstyProfile(
            kind="bursty",
            rate_per_second=100,
            spike_mult=5,
            quiet_seconds=4,
            spike_hold_seconds=2,
            bursts=3,
        )
    )

    assert load.total == 3 * (400 + 1000)
    assert [step.step for step in load.steps] == ["spike_start", "spike_end"] * 3
    assert [(part.start_seconds, part.rate_per_second) for part in load.segments] == [
        (0, 100),
        (4, 500),
        (6, 100),
        (10, 500),
        (12, 100),
        (16, 500),
    ]
    assert load.duration_seconds == 18


def test_a_trace_may_pause() -> None:
    """A period at rate 0 holds no event, and those after it keep their instants."""
    points = ((0, 10), (1, 0), (3, 20), (4, 0))
    profile = TraceProfile(
        kind="trace",
        file="x.csv",
        rate_scale=2,
        points=tuple(TracePoint(second=at, rate_per_second=rate) for at, rate in points),
    )

    load = offered_load(profile)

    times = load.planned_times(0, load.total)
    assert load.total == 20 + 40
    assert not ((times > NS) & (times <= 3 * NS)).any()
    assert load.planned_count(2) == 20
    assert [step.step for step in load.steps] == ["change", "change"]


def test_decimal_numbers_are_taken_as_written() -> None:
    """0.1/s for 30 s are 3 events, though 0.1 x 30 is not 3 in binary at every step."""
    assert steady(0.1, 30).total == 3
    assert steady(0.1, 29.999).total == 2


def test_a_stream_without_an_event_is_refused() -> None:
    """An empty profile is wrong input that names the field, and so are idle stages alone."""
    short = SteadyProfile(kind="steady", rate_per_second=0.5, duration_seconds=1)
    idle = StagesProfile(kind="stages", stages=(Stage(seconds=10, rate_per_second=0),))

    for profile in (short, idle):
        with pytest.raises(WrongInput, check=lambda error: error.field == "profile"):
            offered_load(profile)


@pytest.mark.parametrize("seconds", [(0.0,), (1.0, 2.0), (0.0, 2.0, 2.0)])
def test_a_trace_needs_ascending_seconds_from_zero(seconds: tuple[float, ...]) -> None:
    """Rows that are too few, late or not ascending are rejected."""
    points = tuple(TracePoint(second=second, rate_per_second=5) for second in seconds)

    with pytest.raises(WrongInput, check=lambda error: error.field == "profile.points"):
        offered_load(TraceProfile(kind="trace", file="x.csv", points=points))


rates = st.floats(0.01, 5_000, allow_nan=False).map(lambda rate: round(rate, 3))
lengths = st.floats(0.1, 8, allow_nan=False).map(lambda seconds: round(seconds, 3))


@settings(max_examples=60)
@given(rate=rates, mult=st.floats(1, 20).map(lambda x: round(x, 2)), period=lengths, hold=lengths)
def test_counts_and_instants_agree(rate: float, mult: float, period: float, hold: float) -> None:
    """planned_count at an event's instant counts it, one nanosecond before does not."""
    profile = StepProfile(
        kind="step",
        rate_per_second=rate,
        spike_mult=mult,
        before_seconds=period,
        spike_hold_seconds=hold,
        after_seconds=period,
    )
    try:
        load = offered_load(profile)
    except WrongInput:
        return
    times = load.planned_times(0, load.total)

    assert len(times) == load.total
    assert (np.diff(times) >= 0).all()
    assert times[-1] <= load.duration_ns
    for seq in {0, load.total // 2, load.total - 1}:
        at = int(times[seq])
        assert load.planned_count_at(at) == int(np.searchsorted(times, at, side="right"))
        assert load.planned_count_at(at - 1) == int(np.searchsorted(times, at, side="left"))


@given(first=st.integers(0, 400), length=st.integers(0, 400))
def test_any_range_of_instants_is_a_slice_of_all(first: int, length: int) -> None:
    """Instants do not depend on where the question begins."""
    load = steady(123.4, 5)
    whole = load.planned_times(0, load.total)

    assert (load.planned_times(first, first + length) == whole[first : first + length]).all()


IDLE_THEN_WORK = StagesProfile(
    kind="stages",
    stages=(
        Stage(seconds=60, rate_per_second=0),
        Stage(seconds=20, rate_per_second=500, is_spike=True),
        Stage(seconds=10, rate_per_second=0),
    ),
)


def test_an_idle_stage_plans_no_event() -> None:
    """After 60 idle seconds the first of 10,000 events is due with the second stage."""
    load = offered_load(IDLE_THEN_WORK)

    assert load.total == 10_000
    assert load.duration_seconds == 90
    assert load.planned_count(60) == 0
    assert load.planned_times(0, 1)[0] == 60 * NS + NS // 500
    assert [(step.step, step.at_ns) for step in load.steps] == [
        ("spike_start", 60 * NS),
        ("spike_end", 80 * NS),
    ]


def test_stages_without_a_mark_leave_their_spikes_to_the_rule() -> None:
    """Stages count as a trace does: only a marked one makes the load know its spikes."""
    unmarked = StagesProfile(kind="stages", stages=(Stage(seconds=10, rate_per_second=5),))

    assert not offered_load(unmarked).marks_spikes
    assert offered_load(IDLE_THEN_WORK).marks_spikes


def test_a_trace_in_milliseconds_is_asked_for() -> None:
    """Ten minutes in milliseconds are a week in seconds: no stream takes more than a day."""
    points = trace_points("second,rate\n0,5\n300000,9\n600000,0", where="t.csv")
    trace = TraceProfile(kind="trace", file="t.csv", points=points)

    with pytest.raises(WrongInput, match="milliseconds") as refused:
        offered_load(trace)

    assert refused.value.value == "600,000 s"
    assert offered_load(trace, may_be_empty=True).duration_seconds == 600_000


@pytest.mark.parametrize("end", [86_401.0, 1e18, 1e300])
def test_a_stream_takes_at_most_a_day(end: float) -> None:
    """Also where its nanoseconds have no integer."""
    points = (TracePoint(second=0, rate_per_second=1), TracePoint(second=end, rate_per_second=0))

    with pytest.raises(WrongInput, match="at most 86,400 s"):
        offered_load(TraceProfile(kind="trace", file="t.csv", points=points))
