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
    moved = tuple(sorted(partitions))
    return Move(at, "a", True, moved, frozenset(owned), not full, number)


def given_up(at: int, number: int, partitions: set[int], owned: set[int]) -> Move:
    """Return a revocation from pod a."""
    return Move(at, "a", False, tuple(sorted(partitions)), frozenset(owned), False, number)


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


FIRST = gained(1, 1, {0}, {0}, full=True)
GAVE_UP = given_up(5, 2, {0}, set())


@pytest.mark.parametrize(
    ("moves", "holes"),
    [
        pytest.param(
            [FIRST, GAVE_UP, gained(6, 2, {1}, {1}, full=True), given_up(9, 3, {1}, set())],
            [],
            id="an eager rebalance shares one number",
        ),
        pytest.param(
            [gained(1, 1, {0, 1}, {0, 1}), given_up(5, 2, {1}, {0}), given_up(12, 4, {1}, {0})],
            [Hole("a", 5, 12, frozenset({1}))],
            id="a missing assignment, by the number: the pod never had what it gives up",
        ),
        pytest.param(
            [FIRST, GAVE_UP, given_up(9, 3, {0}, set())],
            [Hole("a", 5, 9, frozenset({0}))],
            id="a missing eager assignment, by what is given up",
        ),
        pytest.param(
            [FIRST, GAVE_UP, gained(9, 3, {0}, {0}, full=True)],
            [Hole("a", 5, 9, None)],
            id="a missing eager rebalance leaves everything open",
        ),
        pytest.param(
            [gained(1, 1, {0}, {0}), given_up(9, 3, {0}, set())],
            [],
            id="an empty assignment that is missing changes nothing",
        ),
        pytest.param(
            [gained(1, 1, {0}, {0}), GAVE_UP, gained(8, 1, {3}, {3})],
            [],
            id="a container that was started again counts anew",
        ),
    ],
)
def test_a_missing_record_is_noticed(moves: list[Move], holes: list[Hole]) -> None:
    """By its number, or by what the pod gives up; what it held is known around a hole."""
    found = holdings(moves, ends={})

    assert found.holes == holes
    last = moves[-1]
    assert {h.partition for h in found.held if h.until_at is None} == set(last.owned)


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
    # Owners of different partitions are no rivals.
    assert rivals([Epoch(0, "a", 1, 2, 1), Epoch(1, "b", 3, 4, 1)], Holdings([], [])) == []


def test_owner_without_work_is_no_rival() -> None:
    """An assignment that led to no work overtakes nobody, but has a rival itself."""
    found = Holdings([Holding(0, "a", 1, 4), Holding(0, "b", 5, 7), Holding(0, "c", 8, None)], [])
    epochs = [Epoch(0, "a", 1, 2, 10), Epoch(0, "c", 8, 9, 1)]

    assert rivals(epochs, found) == [Rival(0, "a", 1, "c", 9), Rival(0, "b", 5, "c", 9)]


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


@pytest.mark.parametrize(
    ("kind", "pods", "at", "cause"),
    [
        ("duplicated", ("b", "a"), 11, ("killed", 9, "a")),  # not the rebalance that followed
        ("duplicated", ("c", "b"), 31, ("rebalance", 30, "c")),  # without a death
        ("duplicated", ("b", "a"), 8, ("killed", 9, "a")),  # seen up to two seconds late
        ("reordered", ("b", "b"), 2, ("none", None, None)),  # before every event
        ("not_yet_consumed", ("b", None), 31, ("none", None, None)),  # lag is nobody's fault
    ],
)
def test_a_bad_message_blames_the_event_before_it(
    kind: str, pods: tuple[str, str | None], at: int, cause: tuple[str, int | None, str | None]
) -> None:
    """For a repeat the end of the first pod comes first; in seconds."""
    (blame,) = FINDER.blame(kind, 0, pods, [(7, at * SECOND)])

    name, second, pod = cause
    cause_at = None if second is None else second * SECOND
    assert blame == Blame(pods[0], at * SECOND, name, cause_at, pod)


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


NS = 1_000_000_000


def ledgered(kills: int, last: float, *, pod: str = "a", most: int = 100) -> Ledgered:
    """Return the ledger's work of a process of the pod, up to ``last`` seconds."""
    return Ledgered(pod, kills, most, round(last * NS))


def held(at: int, *, pod: str = "a") -> Holding:
    """Return a holding of partition 0 without an end."""
    return Holding(0, pod, at * NS, None)


@pytest.mark.parametrize(
    ("kills", "rows", "idle", "assigned", "bounds"),
    [
        pytest.param(
            [10],
            [ledgered(0, 9.5), ledgered(1, 60.0)],
            [9, 50],
            [],
            [(10, 0.5, 50)],
            id="work after the restart does not bound the kill",
        ),
        pytest.param(
            [10, 30],
            [ledgered(0, 9.5), ledgered(1, 29.8), ledgered(2, 60.0, most=200)],
            [29.9, 31],
            [],
            [(10, 0.5, 100), (30, 0.1, 20)],
            id="each kill has its own, at its busiest second",
        ),
        pytest.param(
            [10],
            [ledgered(0, 20.0, pod="b", most=150)],
            [],
            [held(8), held(12), held(1, pod="b")],
            [(10, 2.0, 300)],
            id="a first transaction counts from the assignment, as fast as the busiest pod",
        ),
        pytest.param(
            [10, 12],
            [ledgered(0, 9.5)],
            [],
            [held(1)],
            [(10, 0.5, 50)],
            id="a process without an assignment has done nothing",
        ),
        # No pod's rate is known, so there is no bound of the messages, which is not zero.
        pytest.param([10], [], [9], [held(8)], [(10, 1.0, None)], id="no row, then idle"),
        pytest.param([10], [], [11], [held(8)], [(10, 2.0, None)], id="no row"),
    ],
)
def test_work_of_a_killed_pod_that_is_in_no_ledger_is_bounded(
    kills: list[int],
    rows: list[Ledgered],
    idle: list[float],
    assigned: list[Holding],
    bounds: list[tuple[int, float, int | None]],
) -> None:
    """Kill, seconds and messages at most, since the last row or the last idle report."""
    quiet = [round(at * NS) for at in idle]
    found = unledgered_bounds({"a": [at * NS for at in kills]}, rows, {"a": quiet}, assigned)

    assert found == [
        Unledgered("a", at * NS, pytest.approx(seconds), messages)
        for at, seconds, messages in bounds
    ]
