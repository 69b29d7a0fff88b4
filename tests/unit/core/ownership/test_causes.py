"""Which event is blamed for a bad message."""

from __future__ import annotations

import pytest

from lagbench.core.ownership.causes import (
    Blame,
    CauseFinder,
    Commit,
    Instant,
    Ledgered,
    Unledgered,
    unledgered_bounds,
)
from lagbench.core.ownership.holdings import Holding

SECOND = 1_000_000_000

FINDER = CauseFinder(
    rebalances={
        0: [Instant(10 * SECOND, "rebalance", "b"), Instant(30 * SECOND, "rebalance", "c")]
    },
    fates={"a": [Instant(9 * SECOND, "killed", "a")], "d": [Instant(50 * SECOND, "sigterm", "d")]},
    commits={0: [Commit(100, 5 * SECOND, "a"), Commit(200, 48 * SECOND, "d")]},
)


def test_repeat_blames_the_end_of_the_first_pod() -> None:
    """A kill of the pod that was first is the cause, not the rebalance that followed it."""
    (blame,) = FINDER.blame("duplicated", 0, ("b", "a"), [(7, 11 * SECOND)])

    assert blame == Blame("b", 11 * SECOND, "killed", 9 * SECOND, "a")


def test_repeat_without_an_end_blames_the_rebalance_before() -> None:
    """Without a death the nearest earlier rebalance of the partition is the cause."""
    (blame,) = FINDER.blame("duplicated", 0, ("c", "b"), [(7, 31 * SECOND)])

    assert blame == Blame("c", 31 * SECOND, "rebalance", 30 * SECOND, "c")


def test_death_is_seen_up_to_two_seconds_late() -> None:
    """A kill stamped a second after the repeat (the recorder polls) is still its cause."""
    (blame,) = FINDER.blame("duplicated", 0, ("b", "a"), [(7, 8 * SECOND)])

    assert blame.cause == "killed"


def test_nothing_before_means_no_cause() -> None:
    """A bad message before every event has the cause none."""
    (blame,) = FINDER.blame("reordered", 0, ("b", "b"), [(7, 2 * SECOND)])

    assert blame == Blame("b", 2 * SECOND, "none", None, None)


def test_loss_names_the_commit_that_went_past_it() -> None:
    """A lost offset belongs to the first commit above it, with the pod's end that followed."""
    first, second, beyond = FINDER.blame(
        "lost", 0, (None, None), [(99, None), (100, None), (500, None)]
    )

    assert first == Blame("a", 5 * SECOND, "killed", 9 * SECOND, "a")
    assert second == Blame("d", 48 * SECOND, "sigterm", 50 * SECOND, "d")
    assert beyond == Blame(None, None, "none", None, None)


def test_end_long_after_the_commit_is_not_blamed() -> None:
    """A pod that lived on for half a minute lost the message by its commit alone."""
    finder = CauseFinder({}, {"a": [Instant(90 * SECOND, "sigterm", "a")]}, FINDER.commits)

    (blame,) = finder.blame("lost", 0, (None, None), [(99, None)])

    assert blame == Blame("a", 5 * SECOND, "commit", 5 * SECOND, "a")


def test_waiting_messages_have_no_cause() -> None:
    """Lag is nobody's fault."""
    (blame,) = FINDER.blame("not_yet_consumed", 0, (None, None), [(7, None)])

    assert blame == Blame(None, None, "none", None, None)


NS = 1_000_000_000


def ledgered(kills: int, last: float, *, pod: str = "a", most: int = 100) -> Ledgered:
    """Return the ledger's work of a process of the pod, up to ``last`` seconds."""
    return Ledgered(pod, kills, most, round(last * NS))


def held(at: int, *, pod: str = "a") -> Holding:
    """Return a holding of partition 0 without an end."""
    return Holding(0, pod, at * NS, None)


def test_work_after_the_restart_does_not_bound_the_kill() -> None:
    """The container is started again in its pod and works on: the kill left half a second."""
    rows = [ledgered(0, 9.5), ledgered(1, 60.0)]

    found = unledgered_bounds({"a": [10 * NS]}, rows, {"a": [9 * NS, 50 * NS]}, [])

    assert found == [Unledgered("a", 10 * NS, 0.5, 50)]


def test_each_kill_of_a_pod_has_its_own_bound() -> None:
    """The second process worked until 29.8 s, and was idle at 29.9 s."""
    rows = [ledgered(0, 9.5), ledgered(1, 29.8), ledgered(2, 60.0, most=200)]
    idle = {"a": [round(29.9 * NS), 31 * NS]}

    found = unledgered_bounds({"a": [10 * NS, 30 * NS]}, rows, idle, [])

    assert [(bound.killed_at, bound.messages) for bound in found] == [
        (10 * NS, 100),  # half a second at its busiest second
        (30 * NS, 20),
    ]


def test_a_pod_with_its_first_transaction_open_counts_from_its_assignment() -> None:
    """It has no row yet, and may have worked as fast as the busiest pod."""
    rows = [ledgered(0, 20.0, pod="b", most=150)]

    found = unledgered_bounds({"a": [10 * NS]}, rows, {}, [held(8), held(12), held(1, pod="b")])

    assert found == [Unledgered("a", 10 * NS, 2.0, 300)]


def test_a_process_without_an_assignment_has_done_nothing() -> None:
    """The restarted container was killed again before it joined the group."""
    rows = [ledgered(0, 9.5)]

    found = unledgered_bounds({"a": [10 * NS, 12 * NS]}, rows, {}, [held(1)])

    assert [bound.killed_at for bound in found] == [10 * NS]


@pytest.mark.parametrize(("idle_at", "seconds"), [(9, 1.0), (11, 2.0)])
def test_without_any_row_the_number_is_unknown(idle_at: int, seconds: float) -> None:
    """No pod's rate is known, so there is no bound of the messages, which is not zero."""
    found = unledgered_bounds({"a": [10 * NS]}, [], {"a": [idle_at * NS]}, [held(8)])

    assert found == [Unledgered("a", 10 * NS, seconds, None)]
