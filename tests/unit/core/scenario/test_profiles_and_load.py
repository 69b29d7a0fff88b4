"""Profiles and traces, and the load that they offer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from lagbench.core.scenario.offered_load import NS, OfferedLoad, offered_load
from lagbench.core.scenario.profiles import (
    BurstyProfile,
    Profile,
    Stage,
    StagesProfile,
    SteadyProfile,
    StepProfile,
    TracePoint,
    TraceProfile,
    trace_points,
)
from lagbench.errors import WrongInput

PROFILE: TypeAdapter[Profile] = TypeAdapter(Profile)
STEP = {"kind": "step", "before_seconds": 1, "spike_hold_seconds": 1, "after_seconds": 1}
BURSTY = {"kind": "bursty", "quiet_seconds": 1, "spike_hold_seconds": 1, "bursts": 2}

TRACE = {
    "kind": "trace",
    "file": "rates.csv",
    "points": [{"second": 0, "rate_per_second": 1000}, {"second": 9, "rate_per_second": 0}],
}


@pytest.mark.parametrize(
    ("profile", "field", "most"),
    [
        (STEP | {"rate_per_second": 1_000_000, "spike_mult": 1000}, "spike_mult", 1),
        (BURSTY | {"rate_per_second": 2000, "spike_mult": 501}, "spike_mult", 500),
        (TRACE | {"rate_scale": 1000.5}, "rate_scale", 1000),
    ],
)
def test_a_product_above_the_highest_rate_is_refused(
    profile: dict[str, object], field: str, most: int
) -> None:
    """The message names the factor and what it may be; the highest rate itself is allowed."""
    with pytest.raises(ValidationError, match=rf"profile\.{field} .* {most}:"):
        PROFILE.validate_python(profile)
    assert PROFILE.validate_python(profile | {field: most}).kind == profile["kind"]


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
    profile = BurstyProfile(
        kind="bursty",
        rate_per_second=100,
        spike_mult=5,
        quiet_seconds=4,
        spike_hold_seconds=2,
        bursts=3,
    )
    load = offered_load(profile)

    assert (load.total, load.duration_seconds) == (3 * (400 + 1000), 18)
    assert [step.step for step in load.steps] == ["spike_start", "spike_end"] * 3
    assert [part.start_seconds for part in load.segments] == [0, 4, 6, 10, 12, 16]
    assert [part.rate_per_second for part in load.segments] == [100, 500] * 3


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
    """After 60 idle seconds the first of 10,000 events is due; only a marked load knows spikes."""
    load = offered_load(IDLE_THEN_WORK)
    unmarked = StagesProfile(kind="stages", stages=(Stage(seconds=10, rate_per_second=5),))

    assert (load.marks_spikes, offered_load(unmarked).marks_spikes) == (True, False)
    assert load.total == 10_000
    assert load.duration_seconds == 90
    assert load.planned_count(60) == 0
    assert load.planned_times(0, 1)[0] == 60 * NS + NS // 500
    assert [(step.step, step.at_ns) for step in load.steps] == [
        ("spike_start", 60 * NS),
        ("spike_end", 80 * NS),
    ]


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


def test_comments_and_blank_lines_are_skipped() -> None:
    """Rows become points in order."""
    points = trace_points("# made by hand\n\nsecond,rate\n0,5\n\n2.5,10\n4,0\n", where="t.csv")

    assert [(p.second, p.rate_per_second) for p in points] == [(0, 5), (2.5, 10), (4, 0)]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "header"),
        ("time,rate\n0,1\n1,1\n", "header"),
        ("second,rate\n0,1\n", "rows"),
        ("second,rate\n1,1\n2,1\n", "line 2"),
        ("second,rate\n0,1\n0,1\n", "line 3"),
        ("second,rate\n0,1\n5,2\n4,1\n", "line 4"),
        ("second,rate\n0,-1\n5,2\n", "line 2"),
        ("second,rate\n0,many\n5,2\n", "line 2"),
        ("second,rate\n0,nan\n5,2\n", "line 2"),
        ("second,rate\n0,1,3\n5,2\n", "line 2"),
        ("second,rate\n0,1\ninf,2\n", "line 3"),
        ("second,rate,spike\n0,1\n5,2,0\n", "line 2"),
        ("second,rate,spike\n0,1,2\n5,2,0\n", "line 2"),
        *(  # Python's float takes more than a spreadsheet writes
            (f"second,rate\n0,1\n10,{cell}\n20,0\n", "line 3")
            for cell in ("١٢", "1_0", "nan", "inf", "1e999", "-1", "0x10", "true", "")
        ),
    ],
)
def test_a_bad_row_is_named(text: str, field: str) -> None:
    """The message names the file and the line, or the header."""
    with pytest.raises(WrongInput) as caught:
        trace_points(text, where="t.csv")

    assert (caught.value.where, caught.value.field) == ("t.csv", field)


def test_a_third_column_marks_the_spikes() -> None:
    """1 is one, 0 is none; without the column nothing is said."""
    marked = trace_points("second,rate,spike\n0,5,0\n2,10,1\n4,0,0\n", where="t.csv")
    plain = trace_points("second,rate\n0,5\n4,0\n", where="t.csv")

    assert [point.is_spike for point in marked] == [False, True, False]
    assert {point.is_spike for point in plain} == {None}


def test_too_many_rows_are_refused_before_they_are_read() -> None:
    """The limit and the number are in the message."""
    with pytest.raises(WrongInput, match="at most 10,000") as refused:
        trace_points("second,rate\n" + "0,1\n" * 1_000_000, where="t.csv")

    assert refused.value.value == 1_000_000
