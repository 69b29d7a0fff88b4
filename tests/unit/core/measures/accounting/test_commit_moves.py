"""Committed offsets that moved back."""

from __future__ import annotations

from lagbench.core.measures.accounting.accounting import CommitMove, commits_moved_back


def test_an_offset_that_falls_was_set_back() -> None:
    """Partition 1 falls from 9 to 4; partition 0 only stands still and rises."""
    readings = [(1, 0, 5), (1, 1, 9), (2, 0, 5), (2, 1, 4), (3, 0, 7), (3, 1, 12)]

    assert commits_moved_back(readings, None) == (
        CommitMove(at=2, partition=1, from_offset=9, to_offset=4),
    )


def test_the_fence_is_the_last_reading() -> None:
    """What the group had at the end counts, too; a partition without a commit says nothing."""
    readings = [(1, 0, 5), (1, 1, None), (2, 1, None)]

    (move,) = commits_moved_back(readings, (9, {0: 3, 1: 2}))

    assert (move.at, move.partition, move.to_offset) == (9, 0, 3)


def test_a_reading_that_failed_is_no_move() -> None:
    """An offset that is not known for a while is not lower."""
    assert commits_moved_back([(1, 0, 5), (2, 0, None), (3, 0, 5)], None) == ()
