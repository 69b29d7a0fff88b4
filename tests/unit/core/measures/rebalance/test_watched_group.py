"""The number of rebalances that looks from outside show."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.measures.checks import Check, rebalances_within
from lagbench.core.measures.rebalance.watched_group import GroupLook, WatchedGroup

REBALANCING = "PREPARING_REBALANCING"
Members = dict[str, list[int]]
A: Members = {"a": [0, 1]}
AB: Members = {"a": [0], "b": [1]}


def watch(*looks: tuple[float, Members, str] | tuple[float, Members]) -> WatchedGroup:
    """Return the watch after the looks: instant, partitions by member, state (STABLE)."""
    watched: WatchedGroup | None = None
    for at, members, *state in looks:
        held = [(name, tuple(("t", n) for n in numbers)) for name, numbers in members.items()]
        look = GroupLook.of(at, state[0] if state else "STABLE", held)
        watched = WatchedGroup.first(look) if watched is None else watched.after(look)
    assert watched is not None
    return watched


def check(watched: WatchedGroup, *, limit: int = 1, ended_at: float | None = None) -> Check:
    """Judge a watch whose looks may be 10 s apart."""
    end = watched.last.at_seconds if ended_at is None else ended_at
    return rebalances_within(watched, max_rebalances=limit, ended_at_seconds=end, gap_seconds=10)


@pytest.mark.parametrize(
    ("looks", "rebalances"),
    [
        # The order in which a broker lists the members does not count.
        ([(0, AB), (1, {"b": [1], "a": [0]}), (2, AB)], 0),
        ([(0, A), (1, AB)], 1),
        # A restarted consumer has another member id, with the same partitions.
        ([(0, {"old": [0, 1]}), (1, {"new": [0, 1]})], 1),
        # One in progress counts once, however many looks see it, also at the first look.
        (
            [(0, A), (1, {}, REBALANCING), (5, {}, "COMPLETING_REBALANCING"), (9, AB), (10, AB)],
            1,
        ),
        ([(0, {}, REBALANCING), (1, AB), (9, AB)], 1),
        ([(0, AB), (1, {}, REBALANCING), (2, AB)], 1),  # its result is the same assignment
        ([(0, A), (1, {"a": [0], "b": []}), (2, AB)], 1),  # two rounds of an incremental one
        ([(0, A), (1, AB), (2, AB), (3.5, A)], 2),  # after two quiet seconds
        ([(0, A), (5, AB), (10, A)], 2),
    ],
)
def test_a_rebalance_is_a_movement_between_two_looks(looks: list[Any], rebalances: int) -> None:
    """Instant, partitions by member, state (STABLE)."""
    assert watch(*looks).rebalances == rebalances


def test_the_claim_holds_up_to_the_limit() -> None:
    """One rebalance is allowed, two are not."""
    once, twice = watch((0, A), (1, AB)), watch((0, A), (1, AB), (5, A))

    assert check(once).holds is True
    assert check(twice).holds is False


def test_a_group_without_members_proves_nothing() -> None:
    """A wrong name of the group is no quiet group."""
    assert check(watch((0, {}, "DEAD"), (1, {}, "DEAD"))).holds is None


def test_an_unwatched_stretch_leaves_few_rebalances_unknown() -> None:
    """In the middle as at the end; too many are certain, whatever was missed."""
    assert check(watch((0, A), (11, A))).holds is None
    assert check(watch((0, A), (1, A)), ended_at=12).holds is None
    assert check(watch((0, A), (11, AB)), limit=0).holds is False
    assert check(watch((0, A), (10, A)), ended_at=20).holds is True


def test_the_numbers_say_how_closely_it_was_watched() -> None:
    """Looks, longest gap and members are in the result."""
    assert check(watch((0, A), (4, AB)), ended_at=6).numbers == {
        "rebalances": 1,
        "max_rebalances": 1,
        "looks": 2,
        "longest_gap_seconds": 4.0,
        "most_members": 2,
    }
