"""Small statistics."""

import numpy as np
import pytest

from lagbench.core.measures.statistics import (
    histogram,
    longest_without_new_minimum,
    percentile,
)


def test_percentile_interpolates_and_needs_values() -> None:
    """The median of 1..4 is 2.5, and nothing has no percentile."""
    assert percentile([4, 1, 3, 2], 50) == 2.5
    assert percentile([], 50) is None


def test_histogram_bounds_are_inclusive_and_the_last_bin_is_open() -> None:
    """A value on a bound belongs to that bound's bin."""
    assert histogram([0.1, 0.5, 0.50001, 7], [0.5, 1.0]) == [(0.5, 2), (1.0, 1), (None, 1)]


def test_longest_time_without_a_new_minimum() -> None:
    """10, 9, 9, 9, 8, 8.5: the 9 stood for 3 s; NaN is skipped, not a minimum."""
    at = np.arange(6, dtype=np.float64)

    assert longest_without_new_minimum(at, np.array([10, 9, np.nan, 9, 8, 8.5])) == 3.0
    assert longest_without_new_minimum(at[:1], np.array([1.0])) is None


def test_a_falling_series_has_no_plateau() -> None:
    """Each sample is a new minimum, so the longest time is one sample."""
    assert longest_without_new_minimum(np.arange(9.0), -np.arange(9.0)) == pytest.approx(1.0)
