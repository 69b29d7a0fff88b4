"""How fast lag grows before scaling answers."""

from __future__ import annotations

import pytest
from tests.fakes.group_story import SECOND, change, lag_by_second

from lagbench.core.measures.evidence.load_window import SpikeWindow
from lagbench.core.measures.lag.build_up import BuildUp, build_up
from lagbench.core.measures.replicas.steps import ReplicaChange


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
