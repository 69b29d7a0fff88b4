"""Flips that the load makes, and flips that the policy makes by itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.group_story import SECOND, change

from lagbench.core.measures.replicas.flapping import mark_flips
from lagbench.core.measures.replicas.self_made import mark_self_made


def marked(
    steps: Sequence[tuple[int, int, int]], spikes: Sequence[tuple[int, int]]
) -> list[bool | None]:
    """Return the marks of the steps (at, before, after) under these spikes."""
    changes = [change(at / SECOND, before, after) for at, before, after in steps]
    flips = mark_flips(changes, spikes[-1][1] if spikes else None)
    return [change.is_self_made for change in mark_self_made(flips, spikes)]


@pytest.mark.parametrize(
    ("steps", "spikes", "found"),
    [
        # Two bursts that are followed: both flips are the load's.
        (
            [(70, 2, 8), (130, 8, 2), (190, 2, 8), (260, 8, 2)],
            [(60, 120), (180, 240)],
            [None, False, False, None],
        ),
        ([(10, 2, 3), (20, 3, 2), (30, 2, 3)], [], [None, True, True]),  # a steady load
        # Down and up again while the load stays high; the return after it is no flip.
        (
            [(70, 2, 8), (90, 8, 4), (100, 4, 8), (150, 8, 2)],
            [(60, 120)],
            [None, True, True, None],
        ),
        # The scale-down comes minutes after the burst: a late answer still follows.
        (
            [(70, 2, 8), (290, 8, 2), (310, 2, 8), (500, 8, 2)],
            [(60, 120), (300, 360)],
            [None, False, False, None],
        ),
        # After the answer to the burst's end up and down again: each turn accounts for one.
        (
            [(70, 2, 8), (130, 8, 2), (140, 2, 5), (150, 5, 2), (190, 2, 8), (250, 8, 2)],
            [(60, 120), (180, 240)],
            [None, False, True, True, False, None],
        ),
        # The pause after the first burst had no answer: it is past.
        (
            [(70, 2, 6), (190, 6, 8), (200, 8, 6), (250, 6, 2)],
            [(60, 120), (180, 240)],
            [None, None, True, None],
        ),
        # Several steps in one direction are one answer.
        ([(70, 2, 6), (85, 6, 12), (150, 12, 2)], [(60, 120)], [None, None, None]),
    ],
)
def test_a_flip_is_the_loads_if_it_follows_a_turn(
    steps: list[tuple[int, int, int]],
    spikes: list[tuple[int, int]],
    found: list[bool | None],
) -> None:
    """Steps are (at, before, after), spikes (start, end); None is no flip."""
    assert marked(steps, spikes) == found


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=20),
    st.lists(st.integers(0, 200), max_size=8, unique=True),
)
def test_a_flip_has_exactly_one_cause(specs: list[int], edges: list[int]) -> None:
    """Each flip is marked, and nothing else is."""
    ordered = sorted(edges)
    spikes = list(zip(ordered[::2], ordered[1::2], strict=False))
    steps = [
        (10 * at, before, after)
        for at, (before, after) in enumerate(pairwise(specs))
        if before != after
    ]
    found = marked(steps, spikes)
    last_end = spikes[-1][1] if spikes else None
    flips = sum(mark is not None for mark in found)

    reversals = sum((b[2] > b[1]) != (a[2] > a[1]) for a, b in pairwise(steps))
    assert reversals - (last_end is not None) <= flips <= reversals
