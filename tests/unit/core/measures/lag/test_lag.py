"""Lag over time."""

import numpy as np
import pytest
from tests.fakes.group_story import SECOND, lag_by_second

from lagbench.core.measures.evidence.series import lag_series
from lagbench.core.measures.lag.lag import Seconds, first_crossing, lag_measure

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


def test_without_samples_every_number_is_missing() -> None:
    """No sample: None, not zero."""
    lag = lag_measure(
        lag_by_second([]), from_at=0, until_at=1, spike_ended_at=None, time_lag_seconds=NO_TIME_LAG
    )

    assert lag.peak_records is None
    assert lag.samples == 0
