"""Intervals and verdicts hold what they promise, simulated with fixed seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lagbench.core.compare.pairs.interval import Interval
from lagbench.core.compare.pairs.looks import Looks
from lagbench.core.compare.pairs.sign_flip import sign_flip_p
from lagbench.core.significance import PLANNED_LOOKS

Draw = Callable[[np.random.Generator, int], np.ndarray]
TRIALS = 1000
PLAN = Looks.planned(PLANNED_LOOKS)


def normal(source: np.random.Generator, n: int) -> np.ndarray:
    """Return differences of normal noise."""
    return source.normal(size=n)


def two_phases(source: np.random.Generator, n: int) -> np.ndarray:
    """Return differences of two phases of the HPA's sync, 15 s apart at most."""
    return source.uniform(0, 15, n) - source.uniform(0, 15, n)


@pytest.mark.parametrize("draw", [normal, two_phases])
@pytest.mark.parametrize("n", [5, 6, 8, 12])
def test_the_interval_covers_the_true_difference(draw: Draw, n: int) -> None:
    """95 % of the intervals contain it, also with five pairs; 2 % is three errors of the count."""
    source = np.random.default_rng(n)
    intervals = [Interval.of((draw(source, n) + 3).tolist()) for _ in range(TRIALS)]

    covered = np.mean([i is not None and i.low <= 3 <= i.high for i in intervals])

    assert covered == pytest.approx(0.95, abs=0.02)


def decided(differences: np.ndarray, bound: float) -> str:
    """Return the verdict after the planned looks, of one measure."""
    for look in PLANNED_LOOKS:
        seen = differences[:look].tolist()
        interval = Interval.of(seen)
        assert interval is not None
        if interval.is_inside(bound):
            return "equivalent"
        if interval.is_beyond(bound) and sign_flip_p(seen) <= PLAN.alpha_at(look):
            return "differs"
    return "undetermined"


@pytest.mark.parametrize("draw", [normal, two_phases])
def test_three_looks_find_no_difference_where_there_is_none(draw: Draw) -> None:
    """With bound 0 and no difference at most 5 % of the comparisons find one at any look."""
    source = np.random.default_rng(12)

    found = [decided(draw(source, 12), 0.0) for _ in range(TRIALS)]

    assert found.count("differs") / TRIALS <= 0.05


def test_three_looks_rarely_call_a_difference_at_the_bound_equivalent() -> None:
    """2.5 % at each look, 7.5 % at most: a true difference of exactly the bound, 1 sd."""
    source = np.random.default_rng(3)

    found = [decided(normal(source, 12) + 1, 1.0) for _ in range(TRIALS)]

    assert found.count("equivalent") / TRIALS <= 0.075
    assert found.count("differs") / TRIALS <= 0.05


def test_a_large_difference_is_found() -> None:
    """Three standard deviations, two beyond the bound: every comparison finds it."""
    source = np.random.default_rng(5)

    found = [decided(normal(source, 12) + 3, 1.0) for _ in range(100)]

    assert found == ["differs"] * 100
