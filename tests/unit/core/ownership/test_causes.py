"""Which event is blamed for a bad message."""

from __future__ import annotations

from lagbench.core.ownership.causes import Blame, CauseFinder, Commit, Instant

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
