"""Seqs as ranges."""

from hypothesis import given
from hypothesis import strategies as st

from lagbench.core.measures.evidence.seq_ranges import SeqRanges


def ranges_of(seqs: list[int], most: int = 1000) -> list[tuple[int, int]] | None:
    """Return the ranges of seqs added in this order."""
    found = SeqRanges()
    for seq in seqs:
        found.add(seq)
    return found.ranges(most=most)


def test_none_is_an_empty_list() -> None:
    """Nothing failed is told as such; None would mean not told."""
    assert ranges_of([]) == []


def test_neighbours_are_one_range() -> None:
    """In any order, each seq is in the range of its neighbours."""
    assert ranges_of([7, 3, 4, 2, 9]) == [(2, 4), (7, 7), (9, 9)]


def test_more_ranges_than_allowed_are_not_reported() -> None:
    """At the limit they are told, beyond it none is."""
    assert ranges_of([0, 2, 4], most=3) == [(0, 0), (2, 2), (4, 4)]
    assert ranges_of([0, 2, 4, 6], most=3) is None


@given(st.sets(st.integers(0, 60)))
def test_the_ranges_are_the_seqs(seqs: set[int]) -> None:
    """Unfolded again, the ranges hold each seq and nothing else."""
    ranges = ranges_of(sorted(seqs, reverse=True)) or []

    assert [seq for first, last in ranges for seq in range(first, last + 1)] == sorted(seqs)
