"""Flips that the load makes, and flips that the policy makes by itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lagbench.core.measures.replicas.flapping import mark_flips
from lagbench.core.measures.replicas.self_made import mark_self_made
from lagbench.core.measures.replicas.steps import ReplicaChange


def marked(
    steps: Sequence[tuple[int, int, int]], spikes: Sequence[tuple[int, int]]
) -> list[bool | None]:
    """Return the marks of the steps (at, before, after) under these spikes."""
    changes = [
        ReplicaChange(
            at=at,
            replicas_before=before,
            replicas_after=after,
            by="hpa",
            reason="",
            precision_seconds=0.0,
            is_reversal=False,
            is_flip=False,
        )
        for at, before, after in steps
    ]
    flips = mark_flips(changes, spikes[-1][1] if spikes else None)
    return [change.is_self_made for change in mark_self_made(flips, spikes)]


def test_a_sawtooth_that_is_followed_is_the_loads() -> None:
    """Two bursts, up and down after each start and end: both flips follow the load."""
    steps = [(70, 2, 8), (130, 8, 2), (190, 2, 8), (260, 8, 2)]

    assert marked(steps, [(60, 120), (180, 240)]) == [None, False, False, None]


def test_a_steady_load_never_turns() -> None:
    """Without a spike every flip is self-made."""
    assert marked([(10, 2, 3), (20, 3, 2), (30, 2, 3)], []) == [None, True, True]


def test_flapping_inside_a_spike_is_self_made() -> None:
    """Down and up again while the load stays high; the return after it is no flip."""
    steps = [(70, 2, 8), (90, 8, 4), (100, 4, 8), (150, 8, 2)]

    assert marked(steps, [(60, 120)]) == [None, True, True, None]


def test_a_late_answer_still_follows() -> None:
    """The scale-down comes minutes after the burst, just before the next one is answered."""
    steps = [(70, 2, 8), (290, 8, 2), (310, 2, 8), (500, 8, 2)]

    assert marked(steps, [(60, 120), (300, 360)]) == [None, False, False, None]


def test_each_turn_accounts_for_one_reversal() -> None:
    """After the answer to the burst's end the replicas go up and down again by themselves."""
    steps = [(70, 2, 8), (130, 8, 2), (140, 2, 5), (150, 5, 2), (190, 2, 8), (250, 8, 2)]

    found = marked(steps, [(60, 120), (180, 240)])

    assert found == [None, False, True, True, False, None]


def test_a_turn_that_nobody_answered_is_past() -> None:
    """The pause after the first burst had no answer: a scale-down in the second is self-made."""
    steps = [(70, 2, 6), (190, 6, 8), (200, 8, 6), (250, 6, 2)]

    assert marked(steps, [(60, 120), (180, 240)]) == [None, None, True, None]


def test_several_steps_in_one_direction_are_one_answer() -> None:
    """2 to 6 to 12, then down: the second step up takes no other turn."""
    assert marked([(70, 2, 6), (85, 6, 12), (150, 12, 2)], [(60, 120)]) == [None, None, None]


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
