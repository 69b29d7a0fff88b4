"""Replica changes, reversals, flips, baseline."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from tests.fakes.group_story import change, sample, samples, scaled, watched_step
from tests.fakes.telemetry import SECOND, of

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
    *records: TelemetryRecord, from_second: int = 0, spike_end: float | None = None
) -> tuple[ReplicaChange, ...]:
    """Return the changes of the replicas."""
    return replica_changes(
        records,
        from_at=from_second * SECOND,
        until_at=10**18,
        last_spike_ended_at=None if spike_end is None else round(spike_end * SECOND),
    )


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
    found = changes(*samples(specs), spike_end=spike_end)

    assert [c.is_reversal for c in found] == [bool(each) for each in reversals]
    assert [c.is_flip for c in found] == [bool(each) for each in flips]


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
        changes(*records),
        floor=floor,
        started=max(floor, 1),
        stream_started_at=0,
        first_spike_started_at=None if spike_at is None else spike_at * SECOND,
        until_at=900 * SECOND,
    )

    assert found is holds
    assert set(numbers) <= set(re.findall(r"\d+", text))


def test_what_came_before_the_measurement_window_is_no_change_of_it() -> None:
    """The last sample is of 1 s; the steps at 10 s and 20 s are of before the stream's start."""
    records = [*samples([2, 2]), scaled(10, 2, 6), scaled(20, 6, 2), scaled(100, 2, 4)]

    found = changes(*records, from_second=60)

    assert [(c.at, c.replicas_after, c.is_flip) for c in found] == [(100 * SECOND, 4, False)]


def marked(
    steps: Sequence[tuple[int, int, int]], spikes: Sequence[tuple[int, int]]
) -> list[bool | None]:
    """Return the marks of the steps (at, before, after) under these spikes."""
    changes = [change(at / SECOND, before, after) for at, before, after in steps]
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


END = 400 * SECOND


def sync(second: float, found: int = 2) -> HpaSync:
    """Return a sync of the embedded autoscaler that found a number of replicas."""
    return of(HpaSync, second, "autoscaler", spec_replicas=found)


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


def test_unbroken_watches_see_it() -> None:
    """One list after the other: between two watches lies less than a lost sample or two."""
    watches = [
        of(ReplicasWatched, second + 29.8, since_at=second * SECOND)
        for second in range(40, 360, 30)
    ]

    assert is_seen(*watches)
    assert not is_seen(*watches[:-1])
    assert not is_seen(*[watch for watch in watches if watch.since_at != 190 * SECOND])


def rescale(second: float, size: int, hpa: str = "h") -> KubeEvent:
    """Return the HPA's event."""
    message = f"New size: {size}; reason: external metric above target"
    return of(
        KubeEvent, second, object_name=hpa, reason="SuccessfulRescale", message=message, count=1
    )


OWN = of(HpaSample, 1, name="h", desired=2, current=2)


@pytest.mark.parametrize(
    ("between", "at", "by", "precision", "reason"),
    [
        ([], 2, "unknown", 1.0, ""),  # a cluster's controllers send no telemetry
        ([scaled(1.4, 2, 6)], 1.4, "hpa", 0, "because"),
        ([scaled(1.4, 3, 5)], 2, "unknown", 1.0, ""),  # it does not lead from 2 to 6
        ([watched_step(1.4, 2, 6, "kube-controller-manager")], 1.4, "hpa", 0.4, ""),
        ([watched_step(1.4, 2, 6, "keda")], 1.4, "keda", 0.4, ""),
        ([watched_step(1.4, 2, 6, "keda-operator")], 1.4, "keda", 0.4, ""),
        ([watched_step(1.4, 2, 6, "kubectl")], 1.4, "user", 0.4, "written by kubectl"),
        ([watched_step(1.4, 2, 6)], 1.4, "unknown", 0.4, ""),
        # The HPA's event says who and why, if it is of that size and of the workload's own HPA.
        (
            [watched_step(1.4, 2, 6), rescale(1.2, 4), rescale(1.5, 6)],
            1.4,
            "hpa",
            0.4,
            rescale(1.5, 6).message,
        ),
        (
            [OWN, watched_step(1.4, 2, 6, "kubectl"), rescale(1.5, 6, "elsewhere")],
            1.4,
            "user",
            0.4,
            "written by kubectl",
        ),
    ],
)
def test_a_step_has_its_instant_and_its_author(
    between: list[TelemetryRecord], at: float, by: str, precision: float, reason: str
) -> None:
    """From 2 to 6 replicas, which the samples of 1 and 2 s show."""
    (found,) = changes(sample(1, 2), *between, sample(2, 6))

    assert (found.at, found.by, found.reason) == (round(at * SECOND), by, reason)
    assert found.precision_seconds == pytest.approx(precision)


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
        pytest.param(
            [sample(1, 2), scaled(1.2, 2, 4), scaled(1.7, 4, 6, "user"), sample(2, 6)],
            [(1.2, 4), (1.7, 6)],
            id="two of the autoscaler within a second",
        ),
    ],
)
def test_each_step_counts_once(
    records: list[TelemetryRecord], found: list[tuple[float, int]]
) -> None:
    """Whoever reported it: seconds, and the replicas after it."""
    assert [(c.at, c.replicas_after) for c in changes(*records)] == [
        (round(second * SECOND), replicas) for second, replicas in found
    ]
