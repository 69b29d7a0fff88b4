"""Drain and monotone fall."""

import numpy as np
import pytest

from lagbench.core.measures.evidence.gaps import Gap
from lagbench.core.measures.evidence.series import LagSeries, RateSeries, lag_series
from lagbench.core.measures.lag.drain import (
    Drain,
    DrainThreshold,
    drain_measure,
)
from lagbench.core.measures.lag.lag_fall import full_parallelism, lag_fall, max_rise
from lagbench.core.telemetry.records import ReplicaSample

SECOND = 1_000_000_000
NO_RATE = RateSeries(0, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def lags(*values: float | None) -> LagSeries:
    """Total lag per second, all in one partition."""
    return lag_series(
        at=[i * SECOND for i in range(len(values))],
        partition=[7] * len(values),
        end_offset=[10_000_000] * len(values),
        committed=[None if value is None else 10_000_000 - int(value) for value in values],
    )


def replicas(*pairs: tuple[int, int]) -> list[ReplicaSample]:
    """(spec, ready) per second."""
    return [
        ReplicaSample(at=i * SECOND, source="recorder", spec=spec, current=ready, ready=ready)
        for i, (spec, ready) in enumerate(pairs)
    ]


def drain(series: LagSeries, end_second: int = 1, threshold: float | None = 100) -> Drain:
    """Return the drain after a spike that ended at ``end_second``, at constant full parallelism."""
    return drain_measure(
        series,
        replicas(*[(4, 4)] * series.at.size),
        NO_RATE,
        spike_ended_at=end_second * SECOND,
        until_at=1000 * SECOND,
        threshold=DrainThreshold(threshold, "lagThreshold 100"),
        pod_rate=500,
    )


def test_drained_at_the_first_sample_at_the_threshold() -> None:
    """Spike over at 1 s, lag 100 at 4 s: 3 s, known to within 1 s."""
    found = drain(lags(900, 900, 600, 300, 100, 0))

    assert found.drain_seconds == 3
    assert found.drained_at == 4 * SECOND
    assert found.precision_seconds == 1


def sampled(*pairs: tuple[float, int]) -> LagSeries:
    """Total lag at uneven seconds."""
    return lag_series(
        at=[round(second * SECOND) for second, _ in pairs],
        partition=[7] * len(pairs),
        end_offset=[10_000] * len(pairs),
        committed=[10_000 - lag for _, lag in pairs],
    )


@pytest.mark.parametrize(
    ("later", "high"),
    [
        (((60.9, 0),), 59.9),  # the next sample begins when this one was read
        (((60.1, 0),), 59.1),
        (((65.9, 0),), 60.4),  # a gap after it: no reading takes longer than 1.5 s
        ((), 60.4),
    ],
)
def test_lag_may_have_come_down_while_its_sample_was_read(
    later: tuple[tuple[float, int], ...], high: float
) -> None:
    """The sample of 59.9 s shows 0: its stamp is older than the reading, so 58.9 s is too early."""
    found = drain(sampled((0, 900), (1, 900), (58.9, 900), (59.9, 0), *later))

    assert found.drain_seconds == pytest.approx(58.9)
    assert found.drain_interval == pytest.approx((57.9, high))


def test_older_measures_have_a_drain_that_ends_with_its_sample() -> None:
    """They do not say how long the reading may have taken."""
    fields = drain(lags(900, 900, 600, 100, 0)).model_dump(exclude={"read_within_seconds"})

    assert Drain.model_validate(fields).drain_interval == (1, 2)


def test_an_unknown_total_drains_nothing() -> None:
    """The sample at 2 s is missing, so the one at 3 s counts, known to within 1 s of it."""
    assert drain(lags(900, 900, None, 50)).drain_seconds == 2


def test_lag_that_never_came_down_has_no_drain() -> None:
    """None, not the length of the run."""
    found = drain(lags(900, 900, 800, 700))

    assert found.drain_seconds is None
    assert found.drained_at is None


def test_without_a_threshold_nothing_is_drained() -> None:
    """A CPU policy without the annotation."""
    assert drain(lags(900, 900, 0), threshold=None).drain_seconds is None


def test_skew_limit_is_the_hottest_partition_over_one_pods_rate() -> None:
    """900 messages at 500 a second."""
    found = drain(lags(900, 900, 0))

    assert found.skew_limited_seconds == pytest.approx(1.8)
    assert found.hottest_partition == 7


def test_a_falling_lag_falls() -> None:
    """Never up, a new minimum each second."""
    found = drain(lags(9000, 9000, 6000, 3000, 50))

    assert found.falls_monotonically is True
    assert found.max_rise_records == 0


def test_a_rise_beyond_the_tolerance_is_no_fall() -> None:
    """Peak 10 000, so 200 are tolerated; it rises by 300 within 5 s."""
    found = drain(lags(10_000, 10_000, 8000, 8100, 8200, 8300, 4000, 50))

    assert found.tolerance_records == pytest.approx(200)
    assert found.max_rise_records == 300
    assert found.falls_monotonically is False


def test_a_rise_within_the_tolerance_is_sampling_noise() -> None:
    """It rises by 150 of 10 000 and falls again."""
    assert drain(lags(10_000, 10_000, 8000, 8150, 5000, 50)).falls_monotonically is True


def test_a_plateau_above_the_threshold_is_no_fall() -> None:
    """20 s at 5000 without a new minimum, although it never rises."""
    found = drain(lags(10_000, 10_000, *[5000] * 20, 50))

    assert found.max_rise_records == 0
    assert found.longest_plateau_seconds == 20
    assert found.falls_monotonically is False


def test_one_second_of_work_is_tolerated() -> None:
    """At 3000/s two samples may differ by 3000 because of the commit interval."""
    rate = RateSeries(0, np.full(100, 300), np.full(100, 300))
    series = lags(10_000, 10_000, 8000, 9000, 5000, 50)

    found = lag_fall(series, rate, (SECOND, 9 * SECOND), 5 * SECOND)

    assert found.tolerance_records == pytest.approx(3000)
    assert found.falls_monotonically is True


def test_full_parallelism_needs_the_pods_ready() -> None:
    """The maximum of 8 is wanted from 1 s on, Ready from 3 s on, lowered at 5 s."""
    samples = replicas((2, 2), (8, 2), (8, 5), (8, 8), (8, 8), (6, 8), (2, 2))

    assert full_parallelism(samples, SECOND, 99 * SECOND) == (3 * SECOND, 5 * SECOND)


def test_full_parallelism_before_the_spikes_end_does_not_count() -> None:
    """Scaled down before the spike ended: afterwards it never was at the maximum."""
    samples = replicas((2, 2), (8, 8), (4, 4), (4, 4))

    assert full_parallelism(samples, 2 * SECOND, 99 * SECOND) is None
    assert lag_fall(lags(1, 2), NO_RATE, None, None).falls_monotonically is None


def test_lag_drained_before_full_parallelism_fell() -> None:
    """There was nothing left to drain."""
    assert drain(lags(900, 50, 50)).falls_monotonically is True


def test_max_rise_looks_5_seconds_ahead() -> None:
    """A rise of 10 over 6 s is 8 in any 5 s at most."""
    at = np.arange(7, dtype=np.int64) * SECOND

    assert max_rise(at, np.array([0, 2, 4, 6, 7, 8, 10.0])) == 8


def test_lag_that_was_not_seen_is_not_known_to_fall() -> None:
    """Two samples lost are jitter; with four nobody knows whether it rose in between."""
    jitter = drain(lags(9000, 9000, None, None, 6000, 50))
    missing = drain(lags(9000, 9000, None, None, None, None, 6000, 50))

    assert jitter.falls_monotonically is True
    assert missing.falls_monotonically is None
    assert missing.monotone_text.endswith("5.0 s")


def test_lag_that_rose_where_it_was_seen_did_not_fall() -> None:
    """From 8000 to 8300 before the period that nobody saw."""
    found = drain(lags(10_000, 10_000, 8000, 8300, None, None, None, None, 5000, 50))

    assert found.falls_monotonically is False


def test_without_replicas_nobody_knows_full_parallelism() -> None:
    """Lag falls, then rises where replicas were not seen: neither a fall nor a failure."""
    series = lags(9000, 9000, 8000, 7000, 7500, 7900, 8000, 5000, 50)
    missing = [Gap(3 * SECOND, 7 * SECOND)]
    window = (SECOND, 99 * SECOND)

    assert lag_fall(series, NO_RATE, window, 8 * SECOND).falls_monotonically is False
    assert lag_fall(series, NO_RATE, window, 8 * SECOND, missing).falls_monotonically is None
    drained_before = lag_fall(series, NO_RATE, (8 * SECOND, 99 * SECOND), 8 * SECOND, missing)
    assert drained_before.falls_monotonically is None
