"""Depth, area and recovery of a dip."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.fakes.group_story import event

from lagbench.core.measures.evidence.group_events import GroupEvent
from lagbench.core.measures.evidence.lag_readings import BIN_NS, RateSeries
from lagbench.core.measures.expected_work import (
    Counterfactual,
    CountingOwners,
    Undisturbed,
    counting_owners,
    pod_rate_per_second,
)
from lagbench.core.measures.partition_work import PartitionWork, PodRates
from lagbench.core.measures.rate_dip import (
    NO_WORK_REASONS,
    WINDOW_BINS,
    RateDip,
    episode_bins,
    mean_rate_before,
    rate_dip,
    rate_series,
)

SECOND = 10 * BIN_NS


def series(processed: list[int]) -> RateSeries:
    """100 ms bins from 0 on."""
    done = np.array(processed, dtype=np.int64)
    return RateSeries(0, done, done)


def bins(*periods: tuple[float, float]) -> list[float]:
    """(seconds, per bin) one after the other."""
    return [count for seconds, count in periods for _ in range(round(seconds * 10))]


def dip_of(
    processed: list[float],
    expected: list[float] | None = None,
    *,
    started: float = 20,
    settled: float = 21,
    following: float | None = None,
    available: float = 1e6,
    undone: list[float] | None = None,
    message_seconds: float = 0.0,
) -> RateDip:
    """Return the dip of an episode; 100 a bin are expected throughout where nothing is said."""
    rate = series([round(count) for count in processed])
    watched = episode_bins(
        rate,
        started_at=round(started * SECOND),
        settled_at=round(settled * SECOND),
        next_started_at=None if following is None else round(following * SECOND),
    )
    wanted = np.array(expected or [100.0] * len(processed))[watched.first : watched.watch]
    left = None
    if undone is not None:  # at the start of each bin, and at the end of the last
        left = np.array(undone)[watched.first : watched.watch + 1]
    return rate_dip(
        rate,
        watched,
        wanted,
        available=available,
        undone=left,
        message_seconds=message_seconds,
    )


def test_a_full_stop_of_half_a_second() -> None:
    """1000/s, nothing for 0.5 s: the worst 1 s window has 500, so 50 %; 500 messages behind."""
    dip = dip_of(bins((20, 100), (0.5, 0), (30, 100)))

    assert dip.expected_rate_per_second == 1000
    assert dip.min_rate_per_second == 500
    assert dip.dip_percent == pytest.approx(50)
    assert dip.short_dip_percent == pytest.approx(100)
    assert dip.dip_area_messages == pytest.approx(500)
    assert dip.area_seconds == pytest.approx(0.5)
    assert dip.recovery_seconds == pytest.approx(0.5)
    assert dip.reason == ""


@pytest.mark.parametrize(
    ("processed", "expected", "given", "shown"),
    [
        pytest.param(  # 0.6 s of nothing, then 3000/s: no second has less than before the step
            bins((20, 100), (0.6, 0), (20, 300)),
            bins((20.6, 100), (20, 300)),
            {},
            {
                "dip_percent": 100 * 600 / 1800,
                "short_dip_percent": 100,
                "area_seconds": 0.6,
            },
            id="a stop that added pods make up for",
        ),
        pytest.param(  # a second after a load step 1000/s are expected and 250/s done
            bins((19, 25), (1, 100), (30, 25)),
            bins((19, 25), (31, 100)),
            {},
            {"dip_percent": 75},
            id="a step that falls in with the load",
        ),
        pytest.param(  # after 1 s at half rate 1500/s: it was 500 behind at worst
            bins((20, 100), (1, 50), (20, 150)),
            None,
            {},
            {"dip_area_messages": 500, "dip_percent": 50},
            id="catching up does not shrink the area",
        ),
        pytest.param(  # the fall is counted from its own beginning
            bins((20, 100), (3, 120), (0.5, 0), (20, 100)),
            None,
            {"settled": 24},
            {"dip_area_messages": 500},
            id="work done ahead does not hide a stop",
        ),
        pytest.param(  # the lab's 20 % for 5 s is the limit of the area
            bins((20, 100), (5, 80), (20, 100)),
            None,
            {"settled": 25},
            {"area_seconds": 1.0, "dip_percent": 20},
            id="a fifth less for five seconds",
        ),
        pytest.param(
            bins((20, 100), (20, 180)),
            None,
            {},
            {"dip_percent": 0, "dip_area_messages": 0, "recovery_seconds": 0},
            id="a rate that rises",
        ),
        pytest.param(
            bins((20, 100), (30, 50)),
            None,
            {"following": 30},
            {"recovery_seconds": None, "observed_seconds": 10},
            id="never back while it was watched",
        ),
        pytest.param(
            bins((23, 100), (5, 0), (5, 100)),
            None,
            {"following": 23},
            {"dip_percent": 0},
            id="the next episode ends the watch",
        ),
        pytest.param(
            bins((26, 100), (35, 0), (5, 100)), None, {}, {"dip_percent": 100}, id="5 s after"
        ),
        pytest.param(
            bins((27.1, 100), (35, 0), (5, 100)), None, {}, {"dip_percent": 0}, id="6 s after"
        ),
        pytest.param(
            bins((60, 100), (10, 0), (40, 100)),
            None,
            {"settled": 90},
            {"dip_percent": 100},
            id="watched until it has settled",
        ),
        pytest.param(  # 16 messages a second: widened until 20 are expected in a window
            bins((20, 2), (10, 0), (30, 2)),
            [1.6] * 600,
            {"settled": 30},
            {"window_seconds": 1.5, "dip_percent": 100},
            id="a slow group has wider windows",
        ),
        pytest.param(  # at 0.5 s a message pods end their work in bursts
            [*[0.0] * 4, 100.0] * 100,
            [20.0] * 500,
            {"message_seconds": 0.5},
            {"window_seconds": 5, "dip_percent": 0},
            id="a window holds ten messages of a pod",
        ),
    ],
)
def test_a_dip_is_what_the_group_fell_behind(
    processed: list[float],
    expected: list[float] | None,
    given: dict[str, float],
    shown: dict[str, float | None],
) -> None:
    """1000/s are expected where nothing else is said; the episode lasts from 20 to 21 s."""
    dip = dip_of(processed, expected, **given)

    assert {name: getattr(dip, name) for name in shown} == pytest.approx(shown, abs=0.01)


@pytest.mark.parametrize(("left", "percent"), [(0, 0), (5000, 100)])
def test_a_group_that_has_done_everything_has_not_dipped(left: float, percent: float) -> None:
    """The load ends and 1,000 were expected later: with none left, they were done before."""
    done, expected = bins((23, 100), (20, 0)), bins((24, 100), (19, 0))

    dip = dip_of(done, expected, undone=bins((43.1, left)))

    assert dip.dip_percent == pytest.approx(percent)


@pytest.mark.parametrize(
    ("dip", "is_idle"),
    [
        (dip_of(bins((60, 0)), available=19), True),
        # A thousand messages wait and four are expected in a minute: that is slow, not idle.
        (dip_of(bins((90, 0)), [0.007] * 900, available=1000), False),
        (dip_of(bins((20, 100), (0.5, 0)), settled=20), False),  # less than a window of data
    ],
)
def test_what_was_not_measured_is_not_always_idle(dip: RateDip, *, is_idle: bool) -> None:
    """Only a group with nothing to do has nothing to lose."""
    assert dip.dip_percent is None
    assert (dip.reason in NO_WORK_REASONS) is is_idle


def test_mean_before_uses_what_there_is() -> None:
    """4 s of data before: their mean."""
    processed = [round(count) for count in bins((2, 100), (2, 50), (1, 0))]

    assert mean_rate_before(series(processed), 4 * SECOND) == 750


def test_bins_without_a_row_are_zero() -> None:
    """Two rows of one bin add up; a bin between has no message."""
    rate = rate_series(
        np.array([0, 0, 2 * BIN_NS]), np.array([1, 2, 3]), np.array([4, 5, 6], dtype=np.int64)
    )

    assert rate.offered.tolist() == [3, 0, 3]
    assert rate.processed.tolist() == [9, 0, 6]
    assert rate.processed_between(0, 2 * BIN_NS) == 9


BINS = 1400
"""Two minutes and twenty seconds: twenty blocks of 7 s."""


def work(arrivals: list[float], waiting: list[float], size: int = 400) -> PartitionWork:
    """Return partitions with steady arrivals (per bin) and what waits in every bin."""
    every = np.ones(size, dtype=np.float32)
    return PartitionWork(
        arrivals=np.outer(np.float32(arrivals), every),
        waiting=np.outer(np.float32(waiting), every),
        done=None,
        lost=np.zeros(size, dtype=np.int64),
        pod_rates=None,
        message_seconds=None,
    )


HALF = np.array([10] * 700 + [50] * 700)
STEADY = np.full(BINS, 50)
LOW_ONCE_A_BLOCK = STEADY.copy()
LOW_ONCE_A_BLOCK[30::70] = 25
LOW_ONCE_A_BLOCK[700:730] = 0


@pytest.mark.parametrize(
    ("done", "disturbed", "dip", "short_dip"),
    [
        (STEADY, [], 0, 0),
        # A window in every block is 10 % low; a single stop of 3 s does not raise the noise.
        (LOW_ONCE_A_BLOCK, [], 5, 25),
        (HALF, [(0, 700)], 0, 0),  # what a rebalance disturbs is left out
        (STEADY, [(0, BINS)], None, None),  # without a calm block it is not known
    ],
)
def test_noise_is_what_nine_of_ten_calm_blocks_stay_below(
    done: np.ndarray, disturbed: list[tuple[int, int]], dip: float | None, short_dip: float | None
) -> None:
    """Of one pod that could do 50 a bin all the time."""
    owners = counting_owners([event(0, "a", "assigned", {0})], 0, 1)
    expected = Counterfactual(work([0], [1e6], BINS), owners, 500.0)

    noise = Undisturbed(RateSeries(0, done, done), expected, 0, BINS, disturbed).noise(
        WINDOW_BINS, 500.0
    )

    if dip is None or noise is None:
        assert noise is dip
        return
    found = (noise.dip_noise_percent, noise.short_dip_noise_percent)
    assert found == (pytest.approx(dip, abs=1), pytest.approx(short_dip, abs=2))


def owners(*events: GroupEvent, partitions: int = 2) -> CountingOwners:
    """Return the counting owners after ``events``."""
    return counting_owners(events, 0, partitions)


def expected(found: PartitionWork, by: CountingOwners, first: float, last: float) -> list[float]:
    """Return what is expected per bin of pods that do 500/s."""
    bins = Counterfactual(found, by, 500.0).expected(round(first * 10), round(last * 10))
    return [round(count, 3) for count in bins.tolist()]


START = [event(0, "a", "assigned", {0}), event(0, "b", "assigned", {1})]
BUSY = work([0, 0], [9000, 9000])
HANDED_OVER = [event(0, "a", "assigned", {0, 1}), event(5, "b", "joined")]


@pytest.mark.parametrize(
    ("found", "by", "first", "bins"),
    [
        # Partition 0 has more than a pod can do, partition 1 30 a bin.
        (work([0, 30], [9000, 0]), owners(*START), 1, [80.0] * 10),
        (work([0, 0], [0, 0]), owners(*START), 1, [0.0] * 10),
        # A hot partition left alone: one pod works, the other has nothing.
        (work([0, 0], [10_000, 0]), owners(*START), 1, [50.0] * 10),
        (  # a added pod counts from the instant it owns a partition
            BUSY,
            owners(*HANDED_OVER, event(5, "a", "revoked", {0}), event(6, "b", "assigned", {1})),
            5,
            [50.0] * 10 + [100.0] * 10,
        ),
        (  # an eager rebalance takes nobody out: old owners count until new ones are assigned
            BUSY,
            owners(
                *START,
                *(event(5, pod, "revoked", set()) for pod in "ab"),
                *(event(6, pod, "assigned", {number}) for number, pod in enumerate("ab")),
            ),
            5,
            [100.0] * 20,
        ),
        (  # a pod that died counts on: what its death costs is what its partitions wait
            BUSY,
            owners(*START, event(5, "b", "died"), event(50, "a", "assigned", {0, 1})),
            4,
            [100.0] * 20,
        ),
        # A partition whose owner was never known counts for nobody.
        (BUSY, owners(event(0, "a", "assigned", {0})), 1, [50.0] * 10),
    ],
)
def test_pods_do_what_waits_up_to_what_they_can(
    found: PartitionWork, by: CountingOwners, first: int, bins: list[float]
) -> None:
    """A pod does 50 a bin."""
    assert expected(found, by, first, first + len(bins) / 10) == bins


def test_what_is_on_its_way_is_not_done() -> None:
    """At the edges of two bins of ten: 700 wait, and those of the next two bins are to come."""
    found = work([0], [700], 10)
    found.arrivals[0, 8:] = [30, 40]

    undone = Counterfactual(found, owners(*START), 500.0).undone(7, 10)

    waiting = found.waiting[0, 7:].astype(float)
    assert undone.tolist() == [waiting[0] + 30, waiting[1] + 70, waiting[2] + 40, waiting[2]]


def test_pods_are_expected_to_do_no_more_than_a_slow_downstream_lets_them() -> None:
    """Slow by 4 from bin 15 on: each of the two pods of 50 a bin is expected to do 12.5."""
    slowness = np.ones(400)
    slowness[15:] = 4.0
    busy = work([0, 0], [9000, 9000])

    bins = Counterfactual(busy, owners(*START), 500.0, slowness).expected(10, 20)

    assert bins.tolist() == [100.0] * 5 + [25.0] * 5


LEAVING = [event(5, "b", "sigterm"), event(5.5, "b", "left"), event(8, "a", "assigned", {0, 1})]


def test_a_leaving_pod_counts_until_it_is_asked_to_stop() -> None:
    """Then the rest must do what it can: all that is offered, not two pods' work."""
    found = owners(*START, *LEAVING)

    assert expected(work([0, 0], [9000, 9000]), found, 4, 6) == [100.0] * 10 + [50.0] * 10
    assert expected(work([10, 20], [0, 0]), found, 4, 6) == [30.0] * 20


@pytest.mark.parametrize(
    ("done", "nominal", "rate"),
    [
        (400, 500.0, 400.0),  # slower than the settings
        (700, 500.0, 500.0),  # faster than they allow
        (400, None, 400.0),  # a message costs nothing
        (0, 500.0, 500.0),  # never busy: what they did says nothing of what they can do
    ],
)
def test_what_a_pod_can_do_is_what_pods_did(done: int, nominal: float | None, rate: float) -> None:
    """The median over seconds in which work waited, at most what the settings allow."""
    rates = PodRates(("a", "b"), np.array([[done] * 40, [7 if done else 0] * 40], dtype=np.int32))
    busy = replace(work([0, 0], [9000, 0]), pod_rates=rates)

    assert pod_rate_per_second(busy, owners(*START), [], nominal) == rate
