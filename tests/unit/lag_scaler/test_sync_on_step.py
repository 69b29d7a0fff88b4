"""When a step of the metric changes the target, so that the HPA syncs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.fakes.lag_samples import at, lags, rule, window

from lag_scaler.sync_on_step import CHANGE, SyncOnStep

THRESHOLD = 10


def changes(
    pods: Sequence[float], *, interval: float, distance: float, floor: int = 1, late: float = 0
) -> list[float]:
    """Return the seconds at which the target changed, for the pods that each sample asks for.

    The second sample comes ``late``.
    """
    chosen = rule(
        sustain_seconds=0.0,
        lag_threshold=THRESHOLD,
        sampling_interval_seconds=interval,
        sync_distance_seconds=distance,
        sync_floor=floor,
    )
    over, signal = window(chosen), SyncOnStep(chosen)
    watched, found = over.watch(chosen), []
    for number, wanted in enumerate(pods):
        second = interval * number + (late if number == 1 else 0)
        over.add(lags(second, round(wanted * THRESHOLD), *[0] * 23))
        if signal.take(watched.decide(at(second))):
            found.append(second)
            signal.sent = signal.added  # a stream is open
    assert signal.added == CHANGE * (len(found) % 2)
    return found


@pytest.mark.parametrize(
    ("pods", "interval", "distance", "expected"),
    [
        # the first sample of a new object is no step
        ([8] * 5, 1, 1, []),
        # calm lag, also across a whole number of pods within the tolerance of 10 %
        ([0, 0.9, 1.0, 1.1, 0.5], 1, 1, []),
        ([11.9, 12.1, 11.9, 12.1], 1, 1, []),
        # one step is one change, and what stands is known
        ([1, 1, 5, 5, 5, 5], 1, 1, [2]),
        # growth: a change for each step, at most one in each distance
        ([1, 2, 3, 4, 5, 6, 7, 8], 1, 1, [1, 2, 3, 4, 5, 6, 7]),
        ([1, 2, 3, 4, 5, 6, 7, 8], 1, 3, [1, 4, 7]),
        # down is no step; up again is one, since the HPA may have read the low value
        ([1, 5, 1, 5], 1, 1, [1, 3]),
        # a low value counts for one sync of the HPA: 15 s
        ([1, *[5] * 16, 5], 1, 1, [1]),
        ([1, 5, 5, 1, *[5] * 4], 2, 10, [2, 12]),
        ([5, 5, 1.2], 15, 5, []),
        # sampled four times a second, it is as late as the sample
        ([*[1] * 8, 5, 5, 5], 0.25, 1, [2]),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], 0.25, 1, [0.25, 1.25]),
        # below one pod the HPA has one
        ([0, 1, 0, 1], 1, 1, []),
    ],
)
def test_a_step_beyond_what_the_hpa_has_read_changes_the_target(
    pods: list[float], interval: float, distance: float, expected: list[float]
) -> None:
    """Seconds of the samples that changed it."""
    assert changes(pods, interval=interval, distance=distance) == expected


def test_what_the_floor_does_is_no_step() -> None:
    """With two pods at rest lag for a second one has nothing to decide."""
    climb = [0.2, 1.5, 2.1, 2.3, 4]

    assert changes(climb, interval=1, distance=1) == [1, 3, 4]
    assert changes(climb, interval=1, distance=1, floor=2) == [3, 4]


def test_a_distance_is_reached_by_a_sample_that_comes_early() -> None:
    """Otherwise a millisecond costs a whole interval."""
    assert changes([1, 3, 6, 6], interval=1, distance=1, late=0.01) == [1.01, 2]


def test_two_changes_that_keda_did_not_receive_are_not_what_it_has() -> None:
    """No stream is open: KEDA writes the next target that it hears of, so that the HPA syncs."""
    chosen = rule(
        sustain_seconds=0.0,
        lag_threshold=THRESHOLD,
        sampling_interval_seconds=1,
        sync_distance_seconds=1,
    )
    over, signal = window(chosen), SyncOnStep(chosen)
    watched = over.watch(chosen)
    signal.sent = CHANGE
    for second, pods in enumerate((1, 3, 6)):
        over.add(lags(second, pods * THRESHOLD, *[0] * 23))
        assert signal.take(watched.decide(at(second))) == (second > 0)
    assert signal.added == 0.0
