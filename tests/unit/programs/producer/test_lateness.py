"""Percentiles of lateness from counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagbench.programs.producer.lateness import LatenessCounts


def counted(*late_ms: float) -> LatenessCounts:
    """Return counts of some lateness in milliseconds."""
    counts = LatenessCounts()
    counts.add(np.array([round(value * 1e6) for value in late_ms], dtype=np.int64))
    return counts


def test_nothing_counted_has_no_percentile() -> None:
    """Missing is not zero."""
    assert LatenessCounts().percentile_ms(50) is None


@given(
    values=st.lists(st.floats(0.02, 100_000), min_size=1, max_size=200),
    percent=st.sampled_from([1, 50, 99, 100]),
)
def test_percentiles_are_at_most_two_percent_too_high(values: list[float], percent: int) -> None:
    """The bin's upper edge is never below the true percentile and 2 % above it at most."""
    counts = counted(*values)
    exact = float(np.percentile(values, percent, method="inverted_cdf"))

    found = counts.percentile_ms(percent)

    assert found is not None
    assert exact * 0.999999 <= found <= exact * 1.021
    assert counts.max_ms == pytest.approx(max(values), rel=1e-4)


def test_what_is_beyond_the_last_bin_is_still_the_maximum() -> None:
    """An event half an hour late is counted, and the maximum is exact."""
    counts = counted(1, 1_800_000)

    assert counts.max_ms == 1_800_000
    assert counts.count == 2


def test_merging_adds_both_counts() -> None:
    """The whole is the sum of its seconds."""
    whole = counted(1, 2, 3)

    whole.merge(counted(100))

    assert (whole.count, whole.max_ms) == (4, 100)
    assert whole.percentile_ms(75) == pytest.approx(3, rel=0.021)
