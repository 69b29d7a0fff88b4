"""Depth, area and recovery of a dip."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagbench.core.measures.evidence.series import BIN_NS, RateSeries
from lagbench.core.measures.rebalance.rate_dip import (
    NO_WORK_REASONS,
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
    return rate_dip(rate, watched, wanted, available=available, message_seconds=message_seconds)


def test_a_full_stop_of_half_a_second() -> None:
    """1000/s, nothing for 0.5 s: the worst 1 s window has 500, so 50 %; 500 messages behind."""
    dip = dip_of(bins((20, 100), (0.5, 0), (30, 100)))

    assert dip.expected_rate_per_second == 1000
    assert dip.min_rate_per_second == 500
    assert dip.dip_percent == pytest.approx(50)
    assert dip.short_dip_percent == pytest.approx(100)
    assert dip.area_messages == pytest.approx(500)
    assert dip.area_seconds == pytest.approx(0.5)
    assert dip.recovery_seconds == pytest.approx(0.5)
    assert dip.reason == ""


def test_a_stop_that_added_pods_make_up_for_is_seen() -> None:
    """0.6 s of nothing at 1000/s, then 3000/s: no second has less than before the step."""
    processed = bins((20, 100), (0.6, 0), (20, 300))
    expected = bins((20.6, 100), (20, 300))

    dip = dip_of(processed, expected)

    assert dip.area_seconds == pytest.approx(0.6)
    assert dip.short_dip_percent == pytest.approx(100)
    assert dip.dip_percent == pytest.approx(100 * 600 / 1800)


def test_a_step_that_falls_in_with_the_load_is_not_mixed_with_the_quiet_before() -> None:
    """A second after a load step 1000/s are expected and 250/s done: 75 %, not 31 %."""
    processed = bins((19, 25), (1, 100), (30, 25))

    dip = dip_of(processed, bins((19, 25), (31, 100)))

    assert dip.dip_percent == pytest.approx(75)


def test_catching_up_does_not_shrink_the_area() -> None:
    """After 1 s at half rate the group does 1500/s: it was 500 behind at worst."""
    dip = dip_of(bins((20, 100), (1, 50), (20, 150)))

    assert dip.area_messages == pytest.approx(500)
    assert dip.dip_percent == pytest.approx(50)


def test_work_done_ahead_does_not_hide_a_stop() -> None:
    """1200/s for 3 s and then a stop of 0.5 s: the fall is counted from its own beginning."""
    dip = dip_of(bins((20, 100), (3, 120), (0.5, 0), (20, 100)), settled=24)

    assert dip.area_messages == pytest.approx(500)


def test_a_fifth_less_for_five_seconds_is_an_area_of_one_second() -> None:
    """The lab's 20 % for 5 s is the limit of the area."""
    dip = dip_of(bins((20, 100), (5, 80), (20, 100)), settled=25)

    assert dip.area_seconds == pytest.approx(1.0)
    assert dip.dip_percent == pytest.approx(20)


def test_a_rate_that_rises_has_no_dip() -> None:
    """A scale-up without a pause: 0 %, recovered at once, nothing lost."""
    dip = dip_of(bins((20, 100), (20, 180)))

    assert (dip.dip_percent, dip.area_messages, dip.recovery_seconds) == (0, 0, 0)


def test_a_dip_without_recovery_has_no_time_of_it() -> None:
    """Half the pods are gone and the work is not: never back while it was watched."""
    dip = dip_of(bins((20, 100), (30, 50)), following=30)

    assert dip.recovery_seconds is None
    assert dip.observed_seconds == 10


def test_the_next_episode_ends_the_watch() -> None:
    """A stop that belongs to the next episode is not this one's dip."""
    assert dip_of(bins((23, 100), (5, 0), (5, 100)), following=23).dip_percent == 0


def test_windows_start_up_to_five_seconds_after() -> None:
    """A standstill that begins exactly 5 s after the end of the episode is its dip."""
    assert dip_of(bins((26, 100), (35, 0), (5, 100))).dip_percent == pytest.approx(100)
    assert dip_of(bins((27.1, 100), (35, 0), (5, 100))).dip_percent == 0


def test_an_episode_is_watched_until_it_has_settled() -> None:
    """Partitions without an owner for 70 s: a stop 40 s into it is found."""
    processed = bins((60, 100), (10, 0), (40, 100))

    assert dip_of(processed, settled=90).dip_percent == pytest.approx(100)


def test_a_slow_group_is_measured_in_wider_windows() -> None:
    """16 messages a second: a window is widened until 20 are expected in it."""
    dip = dip_of(bins((20, 2), (10, 0), (30, 2)), [1.6] * 600, settled=30)

    assert dip.window_seconds is not None
    assert 1.25 <= dip.window_seconds < 1.6
    assert dip.dip_percent == pytest.approx(100)


def test_a_window_holds_ten_messages_of_a_pod() -> None:
    """At 0.5 s a message, pods end their work in bursts: 5 s tell a dip, 1 s does not."""
    burst = [*[0.0] * 4, 100.0] * 100

    dip = dip_of(burst, [20.0] * 500, message_seconds=0.5)

    assert dip.window_seconds == 5
    assert dip.dip_percent == pytest.approx(0)


def test_a_group_with_nothing_to_do_has_no_dip() -> None:
    """Fewer than 20 messages to do in all the time watched: a reason that speaks for itself."""
    dip = dip_of(bins((60, 0)), available=19)

    assert dip.dip_percent is None
    assert dip.reason in NO_WORK_REASONS


def test_a_group_that_is_too_slow_to_be_measured_is_not_idle() -> None:
    """A thousand messages wait, four are expected in a minute: not measured, and not idle."""
    dip = dip_of(bins((90, 0)), [0.007] * 900, available=1000)

    assert dip.dip_percent is None
    assert dip.reason not in NO_WORK_REASONS


def test_an_episode_at_the_end_of_the_data_is_not_judged() -> None:
    """0.5 s of data after it is less than a window."""
    dip = dip_of(bins((20, 100), (0.5, 0)), settled=20)

    assert dip.dip_percent is None
    assert dip.reason not in NO_WORK_REASONS


@given(st.lists(st.integers(0, 200), min_size=120, max_size=200))
def test_depth_lies_between_none_and_all(processed: list[int]) -> None:
    """Whatever the rate does, depth is 0 to 100 % and the area is not negative."""
    dip = dip_of([float(count) for count in processed], started=10, settled=11)

    if dip.dip_percent is not None and dip.area_messages is not None:
        assert 0 <= dip.dip_percent <= 100
        assert dip.area_messages >= 0


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
