"""Lag over time."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fakes.group_story import SECOND, change, lag_by_second

from lagbench.core.measures.evidence.lag_readings import RateSeries, lag_series
from lagbench.core.measures.evidence.producer_report import SpikeWindow
from lagbench.core.measures.lag_over_time import (
    BuildUp,
    IdleWait,
    Seconds,
    build_up,
    first_crossing,
    idle_wait,
    lag_measure,
)
from lagbench.core.measures.replica_steps import ReplicaChange
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.profiles import Stage, StagesProfile

NO_TIME_LAG = Seconds(p50=None, p95=None, p99=None, max=None)


@pytest.mark.parametrize(
    ("at", "partition", "end", "committed", "total"),
    [
        ([0, 0], [0, 1], [10, 20], [4, None], None),  # a missing commit is not zero lag
        ([0, 0], [0, 1], [10, 20], [4, 20], 6),
        ([0], [0], [0], [None], 0),  # nothing was ever written, so nothing can wait
        ([0, 0], [0, 1], [-1001, 10], [4, 4], None),  # a broker that stands still
        ([0, 1, 1], [0, 0, 1], [1] * 3, [1] * 3, None),  # the sample lacks a partition
        ([0], [0], [10], [12], 0),  # ends are read before commits
    ],
)
def test_a_total_needs_every_partition(
    at: list[int],
    partition: list[int],
    end: list[int],
    committed: list[int | None],
    total: int | None,
) -> None:
    """Of the first sample; None: it is not known."""
    found = lag_series(at, partition, end, committed).total[0]

    assert np.isnan(found) if total is None else found == total


@pytest.mark.parametrize(
    ("lags", "after", "at", "precision", "is_interpolated"),
    [
        ([100, 100, 500], 1, 1.25, 1.0, True),  # from 100 at 1 s to 500 at 2 s
        ([0, None, 400], 0, 1, 2.0, True),  # the sample between is unknown
        ([500, 600], 0, 0, 0.0, False),  # above already
        ([0, 200, 200], 0, None, None, None),  # only more than the threshold asks for more
    ],
)
def test_a_crossing_lies_between_two_samples(
    lags: list[float | None],
    after: float,
    at: float | None,
    precision: float | None,
    is_interpolated: bool | None,
) -> None:
    """The threshold is 200."""
    found = first_crossing(lag_by_second(lags), round(after * SECOND), 200)

    if found is None:
        assert at is None
    else:
        assert at is not None
        assert found.at == at * SECOND
        assert (found.precision_seconds, found.is_interpolated) == (precision, is_interpolated)


def test_measure_names_peaks_and_counts_unknown_samples() -> None:
    """Peak total 900 at 1 s; the hottest partition is 1; one sample of three is unknown."""
    series = lag_series(
        at=[0, 0, SECOND, SECOND, 2 * SECOND, 2 * SECOND],
        partition=[0, 1] * 3,
        end_offset=[1000] * 6,
        committed=[900, 900, 800, 300, None, 1000],
    )

    lag = lag_measure(
        series, from_at=0, until_at=None, spike_ended_at=SECOND, time_lag_seconds=NO_TIME_LAG
    )

    assert (lag.peak_records, lag.peak_at) == (900, SECOND)
    assert (lag.peak_partition, lag.peak_partition_records) == (1, 700)
    assert lag.at_spike_end_records == 900
    assert (lag.samples, lag.unknown_samples) == (3, 1)
    nothing = lag_measure(
        lag_by_second([]), from_at=0, until_at=1, spike_ended_at=None, time_lag_seconds=NO_TIME_LAG
    )
    assert (nothing.peak_records, nothing.samples) == (None, 0)


def spike(start: float, end: float) -> SpikeWindow:
    """Return a spike from 100 to 1,000 messages per second."""
    return SpikeWindow(
        started_at=round(start * SECOND),
        ended_at=round(end * SECOND),
        rate_before_per_second=100,
        rate_peak_per_second=1000,
    )


def rising(seconds: int, per_second: int = 800, start: int = 10) -> dict[int, int | None]:
    """Return lag 50 until ``start``, and then a rise of ``per_second``."""
    return {s: 50 + max(0, s - start) * per_second for s in range(seconds)}


def measured(
    lags: dict[int, int | None], *changes: ReplicaChange, spikes: tuple[SpikeWindow, ...] = ()
) -> BuildUp:
    """Return the build-up of one spike at 10 s (or of ``spikes``) until 60 s."""
    series = lag_by_second(list(lags.values()))
    found = build_up(series, spikes or (spike(10, 30),), changes, until_at=60 * SECOND)
    assert found is not None
    return found


def test_the_rate_is_that_until_replicas_rise() -> None:
    """800/s from 10 s until the sample before the scale-out at 14.5 s; what follows is not it."""
    lags = rising(15) | {second: 3250 + second for second in range(15, 60)}

    found = measured(lags, change(5, 1, 2), change(12, 2, 1), change(14.5, 1, 4), change(16, 4, 8))

    assert found.records_per_second == 800
    assert (found.until, found.ended_at) == ("scale_out", 14.5 * SECOND)
    assert (found.from_records, found.to_records, found.sampled_seconds) == (50, 3250, 4)


@pytest.mark.parametrize(
    ("lags", "changes", "ended"),
    [
        # Lag fell by itself from 14 s on: the fall is no part of the build-up.
        (rising(15) | {s: 3250 - 10 * (s - 14) for s in range(15, 60)}, (change(20, 1, 4),), 14),
        (rising(31) | dict.fromkeys(range(31, 60), 100), (), 30),  # no policy answered
    ],
)
def test_a_peak_ends_it(
    lags: dict[int, int | None], changes: tuple[ReplicaChange, ...], ended: int
) -> None:
    """The rate is the mean until the peak."""
    found = measured(lags, *changes)

    assert (found.records_per_second, found.until) == (800, "peak")
    assert found.ended_at == ended * SECOND


def test_the_fastest_of_several_spikes_counts() -> None:
    """400/s in the first spike, 900/s in the second, whose lag starts at that of the first."""
    first, second = spike(10, 20), spike(30, 40)
    lags = rising(20, per_second=400) | dict.fromkeys(range(20, 31), 50)
    lags |= {s: 50 + 900 * (s - 30) for s in range(31, 41)} | dict.fromkeys(range(41, 60), 60)

    found = measured(lags, spikes=(first, second))

    assert (found.records_per_second, found.started_at) == (900, 30 * SECOND)


@pytest.mark.parametrize(
    ("lags", "changes"),
    [
        ({s: None if 7 <= s < 11 else lag for s, lag in rising(60).items()}, (change(18, 1, 4),)),
        ({s: None if 11 <= s < 15 else lag for s, lag in rising(60).items()}, (change(18, 1, 4),)),
        (rising(60), (change(10.4, 1, 4),)),  # replicas rose before the next sample
        (dict.fromkeys(range(60), 50), ()),  # the pods kept up with the spike
    ],
)
def test_lag_that_was_not_seen_to_rise_has_no_rate(
    lags: dict[int, int | None], changes: tuple[ReplicaChange, ...]
) -> None:
    """Nothing is guessed, and the reason is given."""
    found = measured(lags, *changes)

    assert (found.records_per_second, bool(found.reason)) == (None, True)


def test_no_spike_has_no_build_up() -> None:
    """A steady load has nothing to build up."""
    assert build_up(lag_by_second(list(rising(60).values())), (), (), until_at=60 * SECOND) is None


START = 100 * SECOND


def load(*stages: tuple[float, float]) -> StagesProfile:
    """Return stages of (seconds, rate)."""
    return StagesProfile(
        kind="stages", stages=tuple(Stage(seconds=s, rate_per_second=r) for s, r in stages)
    )


TWO_STRETCHES = ((1, 10), (5, 0), (1, 10), (5, 0), (6, 10))


def waited(profile: StagesProfile, done: dict[int, int], seconds: float) -> IdleWait | None:
    """Return the wait if the group did ``done`` (messages by bin of 0.1 s from the start)."""
    planned = offered_load(profile)
    bins = round(seconds * 10)
    offered, processed = np.zeros(bins, dtype=np.int64), np.zeros(bins, dtype=np.int64)
    for index in range(bins):
        edges = [round(edge * SECOND / 10) for edge in (index, index + 1)]
        offered[index] = planned.planned_count_at(edges[1]) - planned.planned_count_at(edges[0])
    for index, count in done.items():
        processed[index] = count
    return idle_wait(
        planned,
        RateSeries(START, offered, processed),
        stream_started_at=START,
        until_at=START + round(seconds * SECOND),
    )


def test_it_runs_from_the_planned_instant_to_the_first_work() -> None:
    """Due at 6.1 s (10/s from 6.0 s on), done in the bin that ends at 14.0 s: 7.9 s."""
    found = waited(load((1, 10), (5, 0), (9, 10)), {5: 10, 139: 1}, 15)

    assert found is not None
    assert (found.idle_seconds, found.reason) == (5, "")
    assert found.planned_at == START + round(6.1 * SECOND)
    assert found.seconds == 7.9


@pytest.mark.parametrize(
    ("stages", "done", "seconds", "wait"),
    [
        # What is done next may be older, so the wait is not known, and it is not zero.
        (((1, 10), (5, 0), (4, 10)), {5: 9, 70: 5}, 10, None),
        # Of waits of 1 s and 3 s the second; if nothing is done after it, it is not known.
        (TWO_STRETCHES, {5: 10, 70: 10, 150: 5}, 18, 3.0),
        (TWO_STRETCHES, {5: 10, 70: 10}, 18, None),
    ],
)
def test_the_longest_stretch_counts_and_an_unknown_one_is_not_hidden(
    stages: tuple[tuple[float, float], ...],
    done: dict[int, int],
    seconds: float,
    wait: float | None,
) -> None:
    """A load without an idle stretch has no such message."""
    found = waited(load(*stages), done, seconds)

    assert found is not None
    assert found.seconds == (wait and pytest.approx(wait, abs=0.05))
    assert bool(found.reason) is (wait is None)
    assert waited(load((5, 10), (5, 20)), {5: 10}, 10) is None
