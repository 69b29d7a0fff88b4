"""Replica changes, reversals, flips, baseline."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.replica_records import SECOND, samples, scaled

from lagbench.core.measures.replicas.flapping import baseline_at_floor, replica_changes
from lagbench.core.measures.replicas.steps import ReplicaChange
from lagbench.core.telemetry.records import TelemetryRecord


def changes(
    specs: list[int], spike_end: float | None = None, extra: list[TelemetryRecord] | None = None
) -> tuple[ReplicaChange, ...]:
    """Return the changes of ``specs``."""
    return replica_changes(
        [*samples(specs), *(extra or [])],
        from_at=0,
        until_at=10**18,
        last_spike_ended_at=None if spike_end is None else round(spike_end * SECOND),
    )


def test_the_autoscaler_says_exactly_when_and_who() -> None:
    """Between the samples at 1 s and 2 s the HPA scaled at 1.4 s."""
    (change,) = changes([2, 2, 6], extra=[scaled(1.4, 2, 6)])

    assert (change.at, change.by, change.precision_seconds) == (1.4 * SECOND, "hpa", 0)
    assert (change.replicas_before, change.replicas_after) == (2, 6)


def test_two_steps_between_two_samples_are_both_kept() -> None:
    """2 to 4 to 6 within one second."""
    found = changes([2, 6], extra=[scaled(0.2, 2, 4), scaled(0.7, 4, 6, "user")])

    assert [(c.replicas_after, c.by) for c in found] == [(4, "hpa"), (6, "user")]


def test_without_autoscaler_records_the_sample_is_exact_to_a_second() -> None:
    """On a real cluster the KEDA and HPA controllers send no telemetry."""
    (change,) = changes([2, 2, 6])

    assert (change.at, change.by, change.precision_seconds) == (2 * SECOND, "unknown", 1.0)


def test_steps_that_do_not_lead_to_the_sample_are_not_believed() -> None:
    """A step 3 to 5 cannot explain 2 to 6."""
    (change,) = changes([2, 6], extra=[scaled(0.5, 3, 5)])

    assert change.by == "unknown"


@pytest.mark.parametrize(
    ("specs", "spike_end", "reversals", "flips"),
    [
        ([2, 6, 12, 12, 7, 2], 3, [0, 0, 1, 0], [0, 0, 0, 0]),  # a spike answered as intended
        ([2, 8, 2, 8, 8, 2], 4, [0, 1, 1, 1], [0, 1, 1, 0]),  # a sawtooth; the return is none
        ([2, 8, 8, 2, 4, 2], 2, [0, 1, 1, 1], [0, 0, 1, 1]),  # up again after the return
        ([2, 3, 2], None, [0, 1], [0, 1]),  # a steady load has nothing to return from
    ],
)
def test_a_reversal_without_a_cause_is_a_flip(
    specs: list[int], spike_end: float | None, reversals: list[int], flips: list[int]
) -> None:
    """Only the return to the floor is a reversal without being a flip."""
    found = changes(specs, spike_end)

    assert [c.is_reversal for c in found] == [bool(each) for each in reversals]
    assert [c.is_flip for c in found] == [bool(each) for each in flips]


@given(st.lists(st.integers(0, 5), min_size=2, max_size=30), st.integers(0, 30))
def test_flips_are_reversals_and_at_most_one_is_forgiven(specs: list[int], end: int) -> None:
    """Only the return to the floor is a reversal without being a flip."""
    found = changes(specs, spike_end=end)

    reversals = sum(c.is_reversal for c in found)
    flips = sum(c.is_flip for c in found)
    assert reversals - 1 <= flips <= reversals


STEPS: list[TelemetryRecord] = [scaled(100, 2, 6), scaled(150, 6, 2)]


@pytest.mark.parametrize(
    ("records", "floor", "spike_at", "holds", "numbers"),
    [
        (samples([2, 2, 2, 6]), 2, 3, True, ["3", "2"]),  # scaled after the spike
        (samples([2, 3, 2, 6]), 2, 3, False, ["3", "1", "2"]),
        # A policy that scales to zero has two floors: a pod after the first message is one.
        (samples([0, 1, 0, 6]), 0, 3, True, ["3", "0", "1"]),
        (samples([0, 2, 0, 6]), 0, 3, False, ["2", "1", "0", "1"]),
        ([], 2, None, None, []),
        (samples([2]), 2, 600, None, ["600"]),  # one sample, and nobody knows where else
        ([*samples([2]), *STEPS, *samples([2], 301)], 2, 302, False, ["6", "100", "2"]),
    ],
)
def test_the_baseline_is_at_its_floor_until_the_spike(
    records: list[TelemetryRecord],
    floor: int,
    spike_at: int | None,
    holds: bool | None,
    numbers: list[str],
) -> None:
    """None: not seen throughout."""
    found, text = baseline_at_floor(
        records,
        replica_changes(records, from_at=0, until_at=10**18, last_spike_ended_at=None),
        floor=floor,
        started=max(floor, 1),
        stream_started_at=0,
        first_spike_started_at=None if spike_at is None else spike_at * SECOND,
        until_at=900 * SECOND,
    )

    assert found is holds
    assert set(numbers) <= set(re.findall(r"\d+", text))


def test_what_happened_between_two_equal_samples_flips() -> None:
    """301 s without a sample, 2 replicas at both ends, and four steps of the autoscaler within."""
    steps = [scaled(100, 2, 6), scaled(150, 6, 2), scaled(200, 2, 6), scaled(250, 6, 2)]
    records: list[TelemetryRecord] = [*samples([2]), *steps, *samples([2], 301)]

    found = replica_changes(records, from_at=0, until_at=400 * SECOND, last_spike_ended_at=None)

    assert [c.is_flip for c in found] == [False, True, True, True]


def test_what_came_before_the_measurement_window_is_no_change_of_it() -> None:
    """The last sample is of 1 s; the steps at 10 s and 20 s are of before the stream's start."""
    records = [*samples([2, 2]), scaled(10, 2, 6), scaled(20, 6, 2), scaled(100, 2, 4)]

    found = replica_changes(
        records, from_at=60 * SECOND, until_at=400 * SECOND, last_spike_ended_at=None
    )

    assert [(c.at, c.replicas_after, c.is_flip) for c in found] == [(100 * SECOND, 4, False)]
