"""Lag over time."""

import numpy as np
import pytest

from lagbench.core.measures.evidence.series import LagSeries, lag_series
from lagbench.core.measures.lag.lag import Seconds, first_crossing, lag_measure

SECOND = 1_000_000_000
NO_TIME_LAG = Seconds(p50=None, p95=None, p99=None, max=None)


def one_partition(lags: list[float | None]) -> LagSeries:
    """One sample a second; None is a partition whose commit is not known."""
    return lag_series(
        at=[i * SECOND for i in range(len(lags))],
        partition=[0] * len(lags),
        end_offset=[1000] * len(lags),
        committed=[None if lag is None else int(1000 - lag) for lag in lags],
    )


def test_total_is_unknown_when_one_partition_is() -> None:
    """A missing commit is not zero lag and not no lag: the total is unknown."""
    series = lag_series([0, 0, 1, 1], [0, 1, 0, 1], [10, 20, 10, 20], [4, None, 4, 20])

    assert np.isnan(series.total[0])
    assert series.total[1] == 6


def test_an_empty_partition_without_commit_has_no_lag() -> None:
    """End offset 0: nothing was ever written, so nothing can wait."""
    assert lag_series([0], [0], [0], [None]).total[0] == 0


def test_an_end_offset_below_zero_is_unknown() -> None:
    """A broker that stands still answers -1001, which is no offset: not seen, and not empty."""
    assert np.isnan(lag_series([0, 0], [0, 1], [-1001, 10], [4, 4]).total[0])


def test_a_missing_row_is_unknown() -> None:
    """A sample that lacks a partition has no total."""
    assert np.isnan(lag_series([0, 0, 1], [0, 1, 0], [1, 1, 1], [1, 1, 1]).total[1])


def test_a_commit_ahead_of_the_end_is_no_negative_lag() -> None:
    """Ends are read before commits, so a commit may be ahead: lag 0."""
    assert lag_series([0], [0], [10], [12]).total[0] == 0


def test_crossing_is_interpolated_between_samples() -> None:
    """From 100 at 1 s to 500 at 2 s, 200 is crossed at 1.25 s, known to within 1 s."""
    crossing = first_crossing(one_partition([100, 100, 500]), SECOND, 200)

    assert crossing is not None
    assert crossing.at == 1.25 * SECOND
    assert crossing.precision_seconds == 1.0
    assert crossing.is_interpolated


def test_crossing_spans_an_unknown_sample_with_lower_precision() -> None:
    """With the sample between unknown, the crossing is known to within 2 s."""
    crossing = first_crossing(one_partition([0, None, 400]), 0, 200)

    assert crossing is not None
    assert (crossing.at, crossing.precision_seconds) == (SECOND, 2.0)


def test_lag_that_was_above_already_crosses_at_the_step() -> None:
    """Nothing is before the first sample: it crosses there."""
    crossing = first_crossing(one_partition([500, 600]), 0, 200)

    assert crossing is not None
    assert (crossing.at, crossing.is_interpolated) == (0, False)


def test_lag_at_the_threshold_does_not_cross() -> None:
    """Only more than the threshold asks for more replicas."""
    assert first_crossing(one_partition([0, 200, 200]), 0, 200) is None


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


def test_without_samples_every_number_is_missing() -> None:
    """No sample: None, not zero."""
    lag = lag_measure(
        one_partition([]), from_at=0, until_at=1, spike_ended_at=None, time_lag_seconds=NO_TIME_LAG
    )

    assert lag.peak_records is None
    assert lag.samples == 0


@pytest.mark.parametrize(("at", "index"), [(-1, None), (0, 0), (SECOND - 1, 0), (9 * SECOND, 1)])
def test_index_at_is_the_last_sample_before(at: int, index: int | None) -> None:
    """A sample holds until the next one."""
    assert one_partition([0, 1]).index_at(at) == index
