"""The spikes of a load: marked, by rule, or none."""

from __future__ import annotations

import pytest

from lagbench.core.scenario.profiles import BurstyProfile, SteadyProfile, StepProfile, TraceProfile
from lagbench.core.scenario.stream.profile import OfferedLoad, Segment, offered_load
from lagbench.core.scenario.stream.spikes import Spike, load_spikes
from lagbench.core.scenario.trace_csv import trace_points


def trace(*rows: tuple[float, float], marks: str = "") -> OfferedLoad:
    """Return the load of a trace; ``marks`` has a 0 or 1 for each row."""
    header = "second,rate" + ",spike" * bool(marks)
    lines = [
        f"{second},{rate}" + (f",{marks[index]}" if marks else "")
        for index, (second, rate) in enumerate(rows)
    ]
    points = trace_points("\n".join([header, *lines]), where="t.csv")
    return offered_load(TraceProfile(kind="trace", file="t.csv", points=points))


def periods(load: OfferedLoad, floor: float | None = 1000) -> list[tuple[float, float]]:
    """Return from when to when the spikes last."""
    found = load_spikes(load, started_replicas=1, pod_rate=floor)
    return [(spike.start_seconds, spike.end_seconds) for spike in found]


def test_a_steps_spike_is_its_own_even_below_the_floors_rate() -> None:
    """The profile says what the spike is."""
    profile = StepProfile(
        kind="step",
        rate_per_second=10,
        spike_mult=5,
        before_seconds=8,
        spike_hold_seconds=20,
        after_seconds=4,
    )

    assert load_spikes(offered_load(profile), started_replicas=1, pod_rate=1000) == (
        Spike(8, 28, 10, 50),
    )


def test_each_burst_is_a_spike() -> None:
    """However short the quiet between two of them."""
    profile = BurstyProfile(
        kind="bursty", rate_per_second=10, quiet_seconds=5, spike_hold_seconds=2, bursts=2
    )

    assert periods(offered_load(profile)) == [(5, 7), (12, 14)]


def test_a_steady_load_has_none() -> None:
    """Also where the floor cannot take it."""
    profile = SteadyProfile(kind="steady", rate_per_second=5000, duration_seconds=100)

    assert periods(offered_load(profile)) == []


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (((0, 500), (20, 4000), (60, 500), (90, 0)), [(20, 60)]),
        (((0, 500), (20, 4000), (34.9, 500), (90, 0)), []),  # shorter than a sync of the HPA
        (((0, 500), (20, 4000), (35, 500), (90, 0)), [(20, 35)]),
        (((0, 500), (20, 1500), (30, 900), (40, 3000), (50, 500), (90, 0)), [(20, 50)]),
        (((0, 500), (20, 1500), (40, 900), (55, 3000), (80, 500), (90, 0)), [(20, 40), (55, 80)]),
        (((0, 2000), (30, 500), (90, 0)), [(0, 30)]),
        (((0, 500), (20, 1000), (90, 0)), []),  # exactly what the floor can do
        (((0, 500), (60, 2000), (90, 0)), [(60, 90)]),
    ],
)
def test_a_trace_has_spikes_where_the_floor_cannot_follow(
    rows: tuple[tuple[float, float], ...], found: list[tuple[float, float]]
) -> None:
    """Above 1,000/s for a whole sync of 15 s; shorter gaps join."""
    assert periods(trace(*rows)) == found


def test_a_spike_of_a_trace_knows_its_rates() -> None:
    """The rate before it, and the highest in it."""
    load = trace((0, 500), (20, 1500), (40, 4500), (60, 1200), (80, 300), (90, 0))

    assert load_spikes(load, started_replicas=1, pod_rate=1000) == (Spike(20, 80, 500, 4500),)


def test_a_trace_that_marks_its_spikes_is_taken_at_its_word() -> None:
    """Of 1 s, and with none at all where every row says 0."""
    rows = ((0.0, 500.0), (20.0, 600.0), (21.0, 9000.0), (90.0, 0.0))

    assert periods(trace(*rows, marks="0100")) == [(20, 21)]
    assert periods(trace(*rows, marks="0000")) == []


def test_records_that_cost_nothing_are_never_too_many() -> None:
    """A pod without a limit has none that a rate could exceed."""
    assert periods(OfferedLoad((Segment(0, 1e6),), 60, marks_spikes=False), floor=None) == []
