"""Who held which partition, from the pods' own records."""

from __future__ import annotations

from lagbench.core.ownership.holdings import Holding, Hole, Move, holdings


def gained(
    at: int, number: int, partitions: set[int], owned: set[int], *, full: bool = False
) -> Move:
    """Return an assignment to pod a."""
    return Move(
        at=at,
        pod="a",
        is_assignment=True,
        partitions=tuple(sorted(partitions)),
        owned=frozenset(owned),
        is_incremental=not full,
        number=number,
    )


def given_up(at: int, number: int, partitions: set[int], owned: set[int]) -> Move:
    """Return a revocation from pod a."""
    return Move(
        at=at,
        pod="a",
        is_assignment=False,
        partitions=tuple(sorted(partitions)),
        owned=frozenset(owned),
        is_incremental=False,
        number=number,
    )


def test_a_partition_is_held_from_its_assignment_until_its_revocation() -> None:
    """Partition 1 is given up at 5 and comes back at 9; partition 0 stays."""
    moves = [
        gained(1, 1, {0, 1}, {0, 1}),
        given_up(5, 2, {1}, {0}),
        gained(9, 3, {1}, {0, 1}),
    ]

    found = holdings(moves, ends={"a": 20})

    assert found.held == [
        Holding(0, "a", 1, 20),
        Holding(1, "a", 1, 5),
        Holding(1, "a", 9, 20),
    ]
    assert found.holes == []


def test_an_eager_rebalance_shares_one_number() -> None:
    """All is revoked and given again under one number: nothing is missing."""
    moves = [
        gained(1, 1, {0, 1}, {0, 1}, full=True),
        given_up(5, 2, {0, 1}, set()),
        gained(6, 2, {1}, {1}, full=True),
        given_up(9, 3, {1}, set()),
    ]

    found = holdings(moves, ends={})

    assert found.holes == []
    assert Holding(1, "a", 6, 9) in found.held


def test_a_missing_assignment_is_noticed_by_the_number() -> None:
    """The record of 9 is lost: what the pod gives up at 12 it never had."""
    moves = [
        gained(1, 1, {0, 1}, {0, 1}),
        given_up(5, 2, {1}, {0}),
        given_up(12, 4, {1}, {0}),
    ]

    found = holdings(moves, ends={})

    assert found.holes == [Hole("a", 5, 12, frozenset({1}))]


def test_a_missing_eager_assignment_is_noticed_by_what_is_given_up() -> None:
    """Numbers follow each other, but the pod had nothing to give up."""
    moves = [
        gained(1, 1, {0}, {0}, full=True),
        given_up(5, 2, {0}, set()),
        given_up(9, 3, {0}, set()),
    ]

    assert holdings(moves, ends={}).holes == [Hole("a", 5, 9, frozenset({0}))]


def test_a_missing_eager_rebalance_leaves_everything_open() -> None:
    """The assignment answers a revocation that is not there: any partition may have moved."""
    moves = [
        gained(1, 1, {0}, {0}, full=True),
        given_up(5, 2, {0}, set()),
        gained(9, 3, {0}, {0}, full=True),
    ]

    assert holdings(moves, ends={}).holes == [Hole("a", 5, 9, None)]


def test_an_empty_assignment_that_is_missing_changes_nothing() -> None:
    """The number skips, but the pod has what it had."""
    moves = [gained(1, 1, {0}, {0}), given_up(9, 3, {0}, set())]

    assert holdings(moves, ends={}).holes == []


def test_a_container_that_was_started_again_counts_anew() -> None:
    """Its first record has the number 1: what it held before ended by then."""
    moves = [gained(1, 1, {0}, {0}), given_up(5, 2, {0}, set()), gained(8, 1, {3}, {3})]

    found = holdings(moves, ends={})

    assert found.holes == []
    assert Holding(3, "a", 8, None) in found.held


def test_a_pod_that_said_nothing_more_holds_until_the_next_owner() -> None:
    """It was killed in a gap of the records; pod b is given the partition at 7."""
    heir = gained(7, 1, {0}, {0})._replace(pod="b")

    found = holdings([gained(1, 1, {0}, {0}), heir], ends={})

    assert found.held == [Holding(0, "a", 1, 7), Holding(0, "b", 7, None)]
