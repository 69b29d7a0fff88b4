"""Replica changes, reversals, flips, baseline."""

import re

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


def test_one_rise_and_one_fall_is_one_reversal_and_no_flip() -> None:
    """A spike answered as intended: up in two steps, down in two after its end."""
    found = changes([2, 6, 12, 12, 7, 2], spike_end=3)

    assert sum(c.is_reversal for c in found) == 1
    assert sum(c.is_flip for c in found) == 0


def test_a_sawtooth_that_is_followed_flips() -> None:
    """Up, down, up during the bursts, down after: two flips; the last fall is the return."""
    found = changes([2, 8, 2, 8, 8, 2], spike_end=4)

    assert [c.is_reversal for c in found] == [False, True, True, True]
    assert [c.is_flip for c in found] == [False, True, True, False]


def test_going_up_again_after_the_return_is_a_flip() -> None:
    """The load has ended: the second rise and the second fall are nobody's wish."""
    found = changes([2, 8, 8, 2, 4, 2], spike_end=2)

    assert [c.is_flip for c in found] == [False, False, True, True]


def test_under_steady_load_every_reversal_flips() -> None:
    """There is no spike to return from."""
    assert [c.is_flip for c in changes([2, 3, 2])] == [False, True]


@given(st.lists(st.integers(0, 5), min_size=2, max_size=30), st.integers(0, 30))
def test_flips_are_reversals_and_at_most_one_is_forgiven(specs: list[int], end: int) -> None:
    """Only the return to the floor is a reversal without being a flip."""
    found = changes(specs, spike_end=end)

    reversals = sum(c.is_reversal for c in found)
    flips = sum(c.is_flip for c in found)
    assert reversals - 1 <= flips <= reversals


def test_baseline_counts_samples_before_the_spike_only() -> None:
    """At the floor until the spike at 3 s, scaled afterwards: the baseline held."""
    holds, _ = baseline_at_floor(
        samples([2, 2, 2, 6]),
        changes([2, 2, 2, 6]),
        floor=2,
        stream_started_at=0,
        first_spike_started_at=3 * SECOND,
        until_at=9 * SECOND,
    )

    assert holds is True


def test_baseline_off_the_floor_says_when() -> None:
    """Scaled on noise 1 s after the stream began."""
    holds, text = baseline_at_floor(
        samples([2, 3, 2, 6]),
        changes([2, 3, 2, 6]),
        floor=2,
        stream_started_at=0,
        first_spike_started_at=3 * SECOND,
        until_at=9 * SECOND,
    )

    assert holds is False
    assert re.findall(r"\d+", text)[:3] == ["3", "1", "2"]


def test_a_policy_that_scales_to_zero_has_two_floors() -> None:
    """No pod before the first message, one after it; a second one is off the floor."""
    for replicas, expected in (([0, 1, 0, 6], True), ([0, 2, 0, 6], False)):
        holds, _ = baseline_at_floor(
            samples(replicas),
            changes(replicas),
            floor=0,
            started=1,
            stream_started_at=0,
            first_spike_started_at=3 * SECOND,
            until_at=9 * SECOND,
        )

        assert holds is expected


def test_baseline_without_samples_is_unknown() -> None:
    """Nothing seen is not at the floor."""
    holds, _ = baseline_at_floor(
        [], [], floor=2, stream_started_at=0, first_spike_started_at=None, until_at=1
    )

    assert holds is None


def test_what_happened_between_two_equal_samples_flips() -> None:
    """301 s without a sample, 2 replicas at both ends, and four steps of the autoscaler within."""
    steps = [scaled(100, 2, 6), scaled(150, 6, 2), scaled(200, 2, 6), scaled(250, 6, 2)]
    records: list[TelemetryRecord] = [*samples([2]), *steps, *samples([2], 301)]

    found = replica_changes(records, from_at=0, until_at=400 * SECOND, last_spike_ended_at=None)

    assert [c.is_flip for c in found] == [False, True, True, True]


def test_a_baseline_that_was_not_seen_throughout_is_unknown() -> None:
    """One sample in 600 s: at the floor there, and nobody knows where else."""
    holds, text = baseline_at_floor(
        samples([2]),
        [],
        floor=2,
        stream_started_at=0,
        first_spike_started_at=600 * SECOND,
        until_at=900 * SECOND,
    )

    assert holds is None
    assert "600.0 s" in text


def test_a_baseline_off_the_floor_between_two_samples_is_off() -> None:
    """Nobody sampled the 6 replicas, but the autoscaler made them."""
    records: list[TelemetryRecord] = [
        *samples([2]),
        scaled(100, 2, 6),
        scaled(150, 6, 2),
        *samples([2], 301),
    ]
    holds, text = baseline_at_floor(
        records,
        replica_changes(records, from_at=0, until_at=400 * SECOND, last_spike_ended_at=None),
        floor=2,
        stream_started_at=0,
        first_spike_started_at=302 * SECOND,
        until_at=400 * SECOND,
    )

    assert holds is False
    assert re.findall(r"\d+", text)[:3] == ["6", "100", "2"]


def test_what_came_before_the_measurement_window_is_no_change_of_it() -> None:
    """The last sample is of 1 s; the steps at 10 s and 20 s are of before the stream's start."""
    records = [*samples([2, 2]), scaled(10, 2, 6), scaled(20, 6, 2), scaled(100, 2, 4)]

    found = replica_changes(
        records, from_at=60 * SECOND, until_at=400 * SECOND, last_spike_ended_at=None
    )

    assert [(c.at, c.replicas_after, c.is_flip) for c in found] == [(100 * SECOND, 4, False)]
