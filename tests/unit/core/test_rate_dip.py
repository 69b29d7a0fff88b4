"""Depth, area and recovery of a dip."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagbench.core.rate_dip import (
    BIN_NS,
    NO_WORK_REASONS,
    RateSeries,
    mean_rate_before,
    rate_dip,
    rate_series,
)

SECOND = 10 * BIN_NS


def series(processed: list[int], offered: list[int] | None = None) -> RateSeries:
    """100 ms bins from 0 on; by default there is always more to do than is done."""
    offered = offered or [10_000] + [200] * (len(processed) - 1)
    return RateSeries(0, np.array(offered, dtype=np.int64), np.array(processed, dtype=np.int64))


def bins(*stretches: tuple[float, int]) -> list[int]:
    """(seconds, per bin) one after the other."""
    return [count for seconds, count in stretches for _ in range(round(seconds * 10))]


def test_a_full_stop_of_half_a_second() -> None:
    """1000/s, nothing for 0.5 s: the worst 1 s window has 500, so 50 %; 500 messages behind."""
    dip = rate_dip(
        series(bins((20, 100), (0.5, 0), (30, 100))),
        started_at=20 * SECOND,
        ended_at=21 * SECOND,
        next_started_at=None,
    )

    assert dip.mean_rate_before_per_second == 1000
    assert dip.min_rate_per_second == 500
    assert dip.dip_percent == pytest.approx(50)
    assert dip.area_messages == pytest.approx(500)
    assert dip.recovery_seconds == pytest.approx(0.5)
    assert dip.reason == ""


def test_catching_up_does_not_shrink_the_area() -> None:
    """After 1 s at half rate the group does 1500/s: it was 500 behind at worst."""
    dip = rate_dip(
        series(bins((20, 100), (1, 50), (20, 150))),
        started_at=20 * SECOND,
        ended_at=21 * SECOND,
        next_started_at=None,
    )

    assert dip.area_messages == pytest.approx(500)
    assert dip.dip_percent == pytest.approx(50)


def test_a_rate_that_rises_has_no_dip() -> None:
    """A scale-up without a pause: 0 %, recovered at once, nothing lost."""
    dip = rate_dip(
        series(bins((20, 100), (20, 180))),
        started_at=20 * SECOND,
        ended_at=21 * SECOND,
        next_started_at=None,
    )

    assert (dip.dip_percent, dip.area_messages, dip.recovery_seconds) == (0, 0, 0)


def test_less_offered_load_is_no_dip() -> None:
    """The spike ends with the episode and nothing waits: the group does all there is."""
    processed = bins((20, 100), (20, 10))

    dip = rate_dip(
        series(processed, offered=processed),
        started_at=20 * SECOND,
        ended_at=21 * SECOND,
        next_started_at=None,
    )

    assert dip.dip_percent == pytest.approx(0)
    assert dip.area_messages == pytest.approx(0)


def test_messages_in_flight_are_no_dip() -> None:
    """A rate before above the offer (a backlog just drained), each message done one bin late."""
    offered = bins((10, 100), (10, 60), (20, 60))
    processed = [0, *offered[:-1]]

    dip = rate_dip(
        series(processed, offered=offered),
        started_at=10 * SECOND,
        ended_at=11 * SECOND,
        next_started_at=None,
    )

    assert dip.dip_percent == pytest.approx(0)


def test_a_dip_without_recovery_says_so() -> None:
    """Half the pods are gone and the work is not: never back while it was watched."""
    dip = rate_dip(
        series(bins((20, 100), (30, 50))),
        started_at=20 * SECOND,
        ended_at=21 * SECOND,
        next_started_at=30 * SECOND,
    )

    assert dip.recovery_seconds is None
    assert dip.observed_seconds == 10
    assert "not back" in dip.reason


def test_the_next_episode_ends_the_watch() -> None:
    """A stop that belongs to the next episode is not this one's dip."""
    dip = rate_dip(
        series(bins((20, 100), (3, 100), (5, 0), (5, 100))),
        started_at=20 * SECOND,
        ended_at=21 * SECOND,
        next_started_at=23 * SECOND,
    )

    assert dip.dip_percent == pytest.approx(0)


@pytest.mark.parametrize(
    ("before", "after", "is_without_work"),
    [((20, 0), (20, 100), True), ((20, 1), (20, 0), True), ((0.5, 100), (20, 100), False)],
)
def test_without_a_rate_before_there_is_no_dip(
    before: tuple[float, int], after: tuple[float, int], is_without_work: bool
) -> None:
    """Nothing processed, too little work, or no second of data: None with the reason."""
    dip = rate_dip(
        series(bins(before, after)),
        started_at=round(before[0] * SECOND),
        ended_at=round((before[0] + 1) * SECOND),
        next_started_at=None,
    )

    assert dip.dip_percent is None
    assert dip.area_messages is None
    assert (dip.reason in NO_WORK_REASONS) is is_without_work


def test_an_episode_at_the_end_of_the_data_is_not_judged() -> None:
    """0.5 s of data after it is less than a window."""
    dip = rate_dip(
        series(bins((20, 100), (0.5, 0))),
        started_at=20 * SECOND,
        ended_at=20 * SECOND,
        next_started_at=None,
    )

    assert dip.dip_percent is None
    assert "less than 1 s" in dip.reason


@given(st.lists(st.integers(0, 200), min_size=120, max_size=200))
def test_depth_lies_between_none_and_all(processed: list[int]) -> None:
    """Whatever the rate does, depth is 0 to 100 % and the area is not negative."""
    dip = rate_dip(
        series(processed), started_at=10 * SECOND, ended_at=11 * SECOND, next_started_at=None
    )

    if dip.dip_percent is not None and dip.area_messages is not None:
        assert 0 <= dip.dip_percent <= 100
        assert dip.area_messages >= 0


def test_mean_before_uses_what_there_is() -> None:
    """4 s of data before: their mean."""
    assert mean_rate_before(series(bins((2, 100), (2, 50), (1, 0))), 4 * SECOND) == 750


def test_bins_without_a_row_are_zero() -> None:
    """Two rows of one bin add up; a bin between has no message."""
    rate = rate_series(
        np.array([0, 0, 2 * BIN_NS]), np.array([1, 2, 3]), np.array([4, 5, 6], dtype=np.int64)
    )

    assert rate.offered.tolist() == [3, 0, 3]
    assert rate.processed.tolist() == [9, 0, 6]
    assert rate.processed_between(0, 2 * BIN_NS) == 9
