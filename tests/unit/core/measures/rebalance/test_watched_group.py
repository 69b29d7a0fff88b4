"""The number of rebalances that looks from outside show."""

from __future__ import annotations

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


def test_a_group_that_stays_as_it_is_has_no_rebalance() -> None:
    """The order in which a broker lists the members does not count."""
    assert watch((0, AB), (1, {"b": [1], "a": [0]}), (2, AB)).rebalances == 0


def test_a_changed_assignment_is_a_rebalance() -> None:
    """A member joined, and between the two looks the group was never seen rebalancing."""
    assert watch((0, A), (1, AB)).rebalances == 1


def test_the_same_partitions_in_a_new_member_are_a_rebalance() -> None:
    """A restarted consumer has another member id, though all partitions have an owner as before."""
    assert watch((0, {"old": [0, 1]}), (1, {"new": [0, 1]})).rebalances == 1


def test_a_rebalance_in_progress_counts_once() -> None:
    """However many looks see it, also with its result; one at the first look counts too."""
    seen = watch((0, A), (1, {}, REBALANCING), (5, {}, "COMPLETING_REBALANCING"), (9, AB), (10, AB))

    assert seen.rebalances == 1
    assert watch((0, {}, REBALANCING), (1, AB), (9, AB)).rebalances == 1


def test_a_rebalance_that_leaves_the_assignment_is_seen_while_it_lasts() -> None:
    """Only its state shows it."""
    assert watch((0, AB), (1, {}, REBALANCING), (2, AB)).rebalances == 1


def test_the_two_rounds_of_an_incremental_rebalance_are_one() -> None:
    """They follow each other within the two seconds that separate the episodes of a run."""
    assert watch((0, A), (1, {"a": [0], "b": []}), (2, AB)).rebalances == 1


def test_a_later_movement_is_another_rebalance() -> None:
    """After two quiet seconds a join is a rebalance of its own."""
    assert watch((0, A), (1, AB), (2, AB), (3.5, A)).rebalances == 2


def test_looks_far_apart_count_each_changed_assignment() -> None:
    """The group was settled in between."""
    assert watch((0, A), (5, AB), (10, A)).rebalances == 2


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
