"""Epochs of ownership."""

from __future__ import annotations

from tests.unit.core.ownership.test_owners import clocks_of

from lagbench.core.clocks import ONE_CLOCK, ClockSet
from lagbench.core.ownership.epochs import Epoch, Rival, Span, rivals_of, spans_of, unknown_work
from lagbench.core.ownership.holdings import Holding, Holdings, Hole

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
