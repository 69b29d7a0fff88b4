"""Who held which partition, from the pods' own records."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lagbench.core.clocks import ONE_CLOCK, Clock, ClockSet, OffsetBound, clock_set
from lagbench.core.ownership.causes import (
    Blame,
    CauseFinder,
    Commit,
    Instant,
    Ledgered,
    Unledgered,
    unledgered_bounds,
)
from lagbench.core.ownership.holdings import (
    Epoch,
    Holding,
    Holdings,
    Hole,
    Move,
    Rival,
    Span,
    clock_of,
    holdings,
    most_error_ns,
    rivals_of,
    spans_of,
    unknown_work,
)


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


def clocks_of(errors: Mapping[str, int]) -> ClockSet:
    """Return clocks of pods whose stamps are off by so many nanoseconds at most."""
    by_name = {
        pod: Clock(pod, OffsetBound(-error, error), is_steady=True, answers=1)
        for pod, error in errors.items()
    }
    return ClockSet(is_one_clock=False, by_name=by_name, name_of_pod={pod: pod for pod in errors})


def test_partitions_of_the_output_have_the_brokers_clock() -> None:
    """On a cluster a pod without a reading is not bounded; an output partition is no pod."""
    found = clock_set([], "kubernetes")

    broker = clock_of("output-3", found)
    assert broker is not None
    assert (broker.shift_ns, broker.error_ns) == (0, 0)
    assert clock_of("consumer-3", found) is None


def test_the_error_is_that_of_the_pods_that_are_compared() -> None:
    """Stamps of the broker have one clock, whatever is known of the clocks of other pods."""
    clocks = clocks_of({"a": 3, "b": 5})

    assert most_error_ns(["a", "b", "unknown"], clocks) == 10
    assert most_error_ns(["a"], clocks) == 6
    assert most_error_ns(["output-0", "output-1"], clocks) == 0
    assert most_error_ns(["a", "b"], clock_set([], "processes")) == 0


# a, then b, then a again
HELD = Holdings([Holding(0, "a", 1, 4), Holding(0, "b", 5, 8), Holding(0, "a", 9, None)], [])


def rivals(
    epochs: list[Epoch], found: Holdings = HELD, clocks: ClockSet = ONE_CLOCK
) -> list[Rival]:
    """Return the rivals on partition 0."""
    return rivals_of(epochs, spans_of(found, [0]), found, clocks)


def test_spans_end_at_the_next_assignment_of_the_same_pod() -> None:
    """A pod's span of a partition lasts until it is given the partition again."""
    assert spans_of(HELD, [0]) == [
        Span(0, "a", 1, 9),
        Span(0, "a", 9, None),
        Span(0, "b", 5, None),
    ]


def test_rival_is_the_first_work_of_a_later_owner() -> None:
    """The rival of an epoch is the earliest work of another pod's later epoch."""
    epochs = [Epoch(0, "a", 1, 2, 10), Epoch(0, "b", 5, 7, 10), Epoch(0, "a", 9, 11, 10)]

    assert rivals(epochs) == [Rival(0, "a", 1, "b", 7), Rival(0, "b", 5, "a", 11)]


def test_owner_without_work_is_no_rival() -> None:
    """An assignment that led to no work overtakes nobody, but has a rival itself."""
    found = Holdings([Holding(0, "a", 1, 4), Holding(0, "b", 5, 7), Holding(0, "c", 8, None)], [])
    epochs = [Epoch(0, "a", 1, 2, 10), Epoch(0, "c", 8, 9, 1)]

    assert rivals(epochs, found) == [Rival(0, "a", 1, "c", 9), Rival(0, "b", 5, "c", 9)]


def test_partitions_are_apart() -> None:
    """Owners of different partitions are no rivals."""
    nobody = Holdings([], [])

    assert rivals([Epoch(0, "a", 1, 2, 1), Epoch(1, "b", 3, 4, 1)], nobody) == []


def test_work_of_a_pod_that_never_owned_the_partition_is_no_next_owner() -> None:
    """One row is wrongly signed by c while a owns the partition: c intrudes, a is no zombie."""
    found = Holdings([Holding(0, "a", 1, None)], [])
    epochs = [
        Epoch(0, "a", 1, 2, 15_652),
        Epoch(0, "c", 50, 50, 1, is_reported=False),
    ]

    assert rivals(epochs, found) == [Rival(0, "c", 50, "a", 2)]


def test_work_without_records_follows_whoever_held_the_partition_before() -> None:
    """The telemetry of c is lost; a gave the partition up at 4, and c works from 6 on."""
    found = Holdings([Holding(0, "a", 1, 4)], [])
    epochs = [Epoch(0, "a", 1, 2, 10), Epoch(0, "c", 6, 6, 10, is_reported=False)]

    assert rivals(epochs, found) == [Rival(0, "a", 1, "c", 6)]


def test_work_in_a_hole_of_the_records_blames_nobody() -> None:
    """Where b's record is missing it neither follows a nor precedes it; the hole is named."""
    hole = Hole("b", 5, 20, frozenset({0}))
    found = Holdings([Holding(0, "a", 1, 4), Holding(0, "a", 9, None)], [hole])
    epochs = [
        Epoch(0, "a", 1, 2, 10),
        Epoch(0, "b", 5, 7, 10, is_known=False),
        Epoch(0, "a", 9, 11, 10),
    ]

    assert rivals(epochs, found) == []
    assert unknown_work(epochs, found.holes) == [hole]
    assert unknown_work(epochs[:1], found.holes) == []


def test_a_rival_carries_the_error_of_both_clocks() -> None:
    """30 + 20 ns; with a clock that nobody could ask it is not bounded."""
    epochs = [Epoch(0, "a", 1, 2, 10), Epoch(0, "b", 5, 7, 10)]

    known = rivals(epochs, clocks=clocks_of({"a": 30, "b": 20}))
    unknown = rivals(epochs, clocks=clocks_of({}))

    assert [(r.pod, r.epoch, r.error_ns) for r in known] == [("a", 1, 50)]
    assert [(r.pod, r.epoch, r.error_ns) for r in unknown] == [("a", 1, None)]


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
