"""Epochs of ownership."""

from __future__ import annotations

from bench_spark.epochs import Epoch, Rival, Span, rivals_of, spans_of


def test_spans_end_at_the_next_assignment_of_the_same_pod() -> None:
    """A pod's span of a partition lasts until it is given the partition again."""
    spans = spans_of([(0, "b", 5), (0, "a", 9), (0, "a", 1)])

    assert spans == [Span(0, "a", 1, 9), Span(0, "a", 9, None), Span(0, "b", 5, None)]


def test_rival_is_the_first_work_of_a_later_owner() -> None:
    """The rival of an epoch is the earliest work of another pod's later epoch."""
    epochs = [Epoch(0, "a", 1, 2, 10), Epoch(0, "b", 5, 7, 10), Epoch(0, "a", 9, 11, 10)]

    rivals = rivals_of(epochs, spans_of([(0, "a", 1), (0, "b", 5), (0, "a", 9)]))

    assert rivals == [Rival(0, "a", 1, "b", 7), Rival(0, "b", 5, "a", 11)]


def test_owner_without_work_is_no_rival() -> None:
    """An assignment that led to no work overtakes nobody, but has a rival itself."""
    epochs = [Epoch(0, "a", 1, 2, 10), Epoch(0, "c", 8, 9, 1)]

    rivals = rivals_of(epochs, spans_of([(0, "a", 1), (0, "b", 5), (0, "c", 8)]))

    assert rivals == [Rival(0, "a", 1, "c", 9), Rival(0, "b", 5, "c", 9)]


def test_partitions_are_apart() -> None:
    """Owners of different partitions are no rivals."""
    assert rivals_of([Epoch(0, "a", 1, 2, 1), Epoch(1, "b", 3, 4, 1)], []) == []
