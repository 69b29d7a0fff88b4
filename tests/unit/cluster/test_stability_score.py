"""The arithmetic of the stability comparison."""

from __future__ import annotations

import pytest
from tests.cluster.stability.histories import HISTORIES, LENGTH_SECONDS, wanted
from tests.cluster.stability.score import Gap, gap_of, score, sync_distance_seconds

LAGS = [10] * 10 + [95] * 10 + [10] * 10
TRACK = [(-5.0, 3), (0.0, 2), (12.5, 12), (22.0, 6), (28.0, 2)]


def test_a_score_counts_changes_and_what_was_too_many_and_too_few() -> None:
    """What happened before the history does not count; areas include parts of seconds."""
    found = score(TRACK, LAGS, change_from=10.0)

    assert (found.changes, found.reversals) == (3, 1)
    assert found.first_change_seconds == 2.5
    assert found.highest == 12
    assert found.under_pod_seconds == pytest.approx(2.5 * 8)
    assert found.over_pod_seconds == pytest.approx(7.5 * 2 + 2 * 10 + 6 * 4)


def test_a_track_that_never_moves_has_no_first_change() -> None:
    """Missing is not zero."""
    assert score([(0.0, 2)], LAGS).first_change_seconds is None


def test_two_tracks_are_apart_while_they_differ() -> None:
    """The later change decides when they meet again; the distance is spread over all."""
    assert gap_of([(0.0, 2), (3.0, 4)], [(0.0, 2), (4.5, 4)], 10) == Gap(1.5, 0.3)
    assert gap_of(TRACK[1:], TRACK[1:], 30) == Gap(0, 0)


def test_syncs_are_apart_by_half_a_period_at_most() -> None:
    """A change that came a sync later tells the same phase."""
    assert sync_distance_seconds([(0.0, 2), (3.5, 4)], [(0.0, 2), (18.0, 5)]) == 0.5
    assert sync_distance_seconds([(0.0, 2), (3.5, 4)], [(0.0, 2), (4.0, 5)]) == 0.5
    assert sync_distance_seconds([(0.0, 2)], [(0.0, 2), (4.0, 5)]) is None


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_is_the_same_each_time(name: str) -> None:
    """Three minutes of lag that asks for more than the floor."""
    lags = HISTORIES[name]()

    assert lags == HISTORIES[name]()
    assert len(lags) == LENGTH_SECONDS
    assert max(map(wanted, lags)) > wanted(0)
