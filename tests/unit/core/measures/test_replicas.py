"""Replica changes, reversals, flips, baseline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.group_story import SECOND, change, sample, samples, scaled, watched_step
from tests.fakes.group_story import SECOND as SECOND_SELF_MADE

from lagbench.core.measures.replica_changes import (
    baseline_at_floor,
    mark_flips,
    mark_self_made,
    replica_changes,
    replica_gaps,
)
from lagbench.core.measures.replica_steps import ReplicaChange
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import HpaSync
from lagbench.core.telemetry.records_of_recorder import HpaSample, KubeEvent, ReplicasWatched


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


def marked(
    steps: Sequence[tuple[int, int, int]], spikes: Sequence[tuple[int, int]]
) -> list[bool | None]:
    """Return the marks of the steps (at, before, after) under these spikes."""
    changes = [change(at / SECOND_SELF_MADE, before, after) for at, before, after in steps]
    flips = mark_flips(changes, spikes[-1][1] if spikes else None)
    return [change.is_self_made for change in mark_self_made(flips, spikes)]


@pytest.mark.parametrize(
    ("steps", "spikes", "found"),
    [
        # Two bursts that are followed: both flips are the load's.
        (
            [(70, 2, 8), (130, 8, 2), (190, 2, 8), (260, 8, 2)],
            [(60, 120), (180, 240)],
            [None, False, False, None],
        ),
        ([(10, 2, 3), (20, 3, 2), (30, 2, 3)], [], [None, True, True]),  # a steady load
        # Down and up again while the load stays high; the return after it is no flip.
        (
            [(70, 2, 8), (90, 8, 4), (100, 4, 8), (150, 8, 2)],
            [(60, 120)],
            [None, True, True, None],
        ),
        # The scale-down comes minutes after the burst: a late answer still follows.
        (
            [(70, 2, 8), (290, 8, 2), (310, 2, 8), (500, 8, 2)],
            [(60, 120), (300, 360)],
            [None, False, False, None],
        ),
        # After the answer to the burst's end up and down again: each turn accounts for one.
        (
            [(70, 2, 8), (130, 8, 2), (140, 2, 5), (150, 5, 2), (190, 2, 8), (250, 8, 2)],
            [(60, 120), (180, 240)],
            [None, False, True, True, False, None],
        ),
        # The pause after the first burst had no answer: it is past.
        (
            [(70, 2, 6), (190, 6, 8), (200, 8, 6), (250, 6, 2)],
            [(60, 120), (180, 240)],
            [None, None, True, None],
        ),
        # Several steps in one direction are one answer.
        ([(70, 2, 6), (85, 6, 12), (150, 12, 2)], [(60, 120)], [None, None, None]),
    ],
)
def test_a_flip_is_the_loads_if_it_follows_a_turn(
    steps: list[tuple[int, int, int]],
    spikes: list[tuple[int, int]],
    found: list[bool | None],
) -> None:
    """Steps are (at, before, after), spikes (start, end); None is no flip."""
    assert marked(steps, spikes) == found


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=20),
    st.lists(st.integers(0, 200), max_size=8, unique=True),
)
def test_a_flip_has_exactly_one_cause(specs: list[int], edges: list[int]) -> None:
    """Each flip is marked, and nothing else is."""
    ordered = sorted(edges)
    spikes = list(zip(ordered[::2], ordered[1::2], strict=False))
    steps = [
        (10 * at, before, after)
        for at, (before, after) in enumerate(pairwise(specs))
        if before != after
    ]
    found = marked(steps, spikes)
    last_end = spikes[-1][1] if spikes else None
    flips = sum(mark is not None for mark in found)

    reversals = sum((b[2] > b[1]) != (a[2] > a[1]) for a, b in pairwise(steps))
    assert reversals - (last_end is not None) <= flips <= reversals


END = 400 * SECOND


def sync(second: float, found: int = 2) -> HpaSync:
    """Return a sync of the embedded autoscaler that found a number of replicas."""
    return HpaSync(
        at=round(second * SECOND),
        source="autoscaler",
        hpa="h",
        spec_replicas=found,
        status_replicas=found,
        metrics={},
        proposal=found,
        desired=found,
        able_to_scale="",
        scaling_limited="",
        scaling_active="",
    )


WITH_GAP = [*samples([2] * 50), *samples([2] * 50, 351)]


def is_seen(*reported: TelemetryRecord) -> bool:
    """Return whether 302 s without samples are seen by what was told."""
    return not replica_gaps([*WITH_GAP, *reported], 0, END)


def test_a_time_without_samples_is_a_gap() -> None:
    """From the last sample before to the first one after."""
    (found,) = replica_gaps(WITH_GAP, 0, END)

    assert (found.started_at, found.ended_at) == (49 * SECOND, 351 * SECOND)
    assert replica_gaps(samples([2] * 401), 0, END) == []


def test_an_autoscaler_that_goes_on_reporting_sees_it() -> None:
    """A sync every 15 s, each with the replicas that the step before it left."""
    quiet = [sync(second) for second in range(45, 366, 15)]
    busy = [sync(second, 2 if second < 100 or second > 200 else 6) for second in range(45, 366, 15)]

    assert is_seen(*quiet)
    assert is_seen(*busy, scaled(95, 2, 6), scaled(199, 6, 2))


def test_silence_and_strange_replicas_are_not_seen() -> None:
    """Steps alone do not show that there were no more; a gap of 60 s, or replicas of others."""
    syncs = range(45, 366, 15)

    assert not is_seen(scaled(100, 2, 6), scaled(150, 6, 2))
    assert not is_seen(*[sync(second) for second in syncs if not 150 < second < 200])
    assert not is_seen(*[sync(second) for second in syncs if second > 50])
    assert not is_seen(*[sync(second) for second in syncs if second < 350])
    assert not is_seen(*[sync(second, 4 if second == 180 else 2) for second in syncs])


def watched(since: float, until: float) -> ReplicasWatched:
    """Return the word of a watch that was not broken."""
    return ReplicasWatched(
        at=round(until * SECOND), source="recorder", since_at=round(since * SECOND)
    )


def test_unbroken_watches_see_it() -> None:
    """One list after the other: between two watches lies less than a lost sample or two."""
    watches = [watched(second, second + 29.8) for second in range(40, 360, 30)]

    assert is_seen(*watches)
    assert not is_seen(*watches[:-1])
    assert not is_seen(*[watch for watch in watches if watch.since_at != 190 * SECOND])


def rescale(second: float, size: int, hpa: str = "h") -> KubeEvent:
    """Return the HPA's event."""
    return KubeEvent(
        at=round(second * SECOND),
        source="recorder",
        object_kind="HorizontalPodAutoscaler",
        object_name=hpa,
        type="Normal",
        reason="SuccessfulRescale",
        message=f"New size: {size}; reason: external metric above target",
        count=1,
        first_at=None,
        last_at=None,
    )


def changes_of_replica_steps(*records: TelemetryRecord) -> tuple[ReplicaChange, ...]:
    """Return the changes that ``records`` show."""
    return replica_changes(records, from_at=0, until_at=10**18, last_spike_ended_at=None)


@pytest.mark.parametrize(
    ("manager", "by"),
    [
        ("kube-controller-manager", "hpa"),
        ("keda", "keda"),
        ("keda-operator", "keda"),
        ("kubectl", "user"),
        ("", "unknown"),
    ],
)
def test_the_watch_says_when_and_the_writers_name_who(manager: str, by: str) -> None:
    """Known to the distance from the sample that still showed the old number."""
    (change,) = changes_of_replica_steps(
        sample(1, 2), watched_step(1.4, 2, 6, manager), sample(2, 6)
    )

    assert (change.at, change.by) == (round(1.4 * SECOND), by)
    assert change.precision_seconds == pytest.approx(0.4)


def test_the_hpas_event_gives_the_reason() -> None:
    """And says that it was the HPA, where the writer is not told; one of another size does not."""
    (change,) = changes_of_replica_steps(
        sample(1, 2), watched_step(1.4, 2, 6), rescale(1.2, 4), rescale(1.5, 6), sample(2, 6)
    )

    assert (change.by, change.reason) == ("hpa", rescale(1.5, 6).message)


def test_the_event_of_another_workloads_hpa_is_no_reason() -> None:
    """Of the same size in the same second; the samples name the workload's own HPA."""
    own = HpaSample(
        at=SECOND, source="recorder", name="h", desired=2, current=2, metrics=[], conditions=[]
    )
    step = watched_step(1.4, 2, 6, "kubectl")
    (change,) = changes_of_replica_steps(
        own, sample(1, 2), step, rescale(1.5, 6, "elsewhere"), sample(2, 6)
    )

    assert (change.by, change.reason) == ("user", "written by kubectl")


@pytest.mark.parametrize(
    ("records", "found"),
    [
        pytest.param(
            [sample(1, 0), watched_step(1.2, 0, 1, "keda"), watched_step(1.7, 1, 4), sample(2, 4)],
            [(1.2, 1), (1.7, 4)],
            id="two steps within a second: KEDA activates, the HPA continues",
        ),
        pytest.param(
            [sample(1, 2), sample(2, 6), watched_step(2.01, 2, 6, "kubectl"), sample(3, 6)],
            [(2.01, 6)],
            id="a sample may be read before the watch reports",
        ),
        pytest.param(
            [sample(1, 2), scaled(1.3, 2, 6), watched_step(1.4, 2, 6), sample(2, 6)],
            [(1.3, 6)],
            id="the autoscaler stamps its own step exactly",
        ),
        pytest.param(
            [
                *(sample(1, 2), scaled(1.2, 2, 6), watched_step(1.5, 2, 6), scaled(1.6, 6, 2)),
                *(watched_step(1.9, 6, 2), sample(2, 2), sample(3, 2)),
            ],
            [(1.2, 6), (1.6, 2)],
            id="what both tell is one step",
        ),
        pytest.param(
            [
                *(sample(1, 2), sample(2, 2), sample(3, 6), sample(4, 2)),
                *(scaled(1.97, 2, 6), scaled(3.2, 6, 2)),
            ],
            [(1.97, 6), (3.2, 2)],
            id="a step near a sample counts once",
        ),
        pytest.param(
            [sample(1, 2), sample(9, 2), watched_step(3, 2, 6), watched_step(6, 6, 2)],
            [(3, 6), (6, 2)],
            id="the watch shows what came back between two samples",
        ),
        pytest.param(
            [sample(1, 2), scaled(100, 2, 6), sample(301, 2)],
            [(100, 6), (301, 2)],
            id="the way back was told by nobody: the next sample is its bound",
        ),
        pytest.param(
            [sample(1, 2), sample(2, 2), scaled(100, 2, 6), scaled(200, 6, 2)],
            [(100, 6), (200, 2)],
            id="steps after the last sample count",
        ),
    ],
)
def test_each_step_counts_once(
    records: list[TelemetryRecord], found: list[tuple[float, int]]
) -> None:
    """Whoever reported it: seconds, and the replicas after it."""
    assert [(c.at, c.replicas_after) for c in changes_of_replica_steps(*records)] == [
        (round(second * SECOND), replicas) for second, replicas in found
    ]
