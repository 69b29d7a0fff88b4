"""Intervals, the exact test, Holm and the planned looks, against published values and by hand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from lagbench.core.compare.pair_statistics import Interval, Looks, holm, sign_flip_p, t_quantile
from lagbench.core.significance import PLANNED_LOOKS, SIGNIFICANCE, floor_of
from lagbench.errors import WrongInput

Draw = Callable[[np.random.Generator, int], np.ndarray]
TRIALS = 1000
PLAN = Looks(PLANNED_LOOKS)


def normal(source: np.random.Generator, n: int) -> np.ndarray:
    """Return differences of normal noise."""
    return source.normal(size=n)


def two_phases(source: np.random.Generator, n: int) -> np.ndarray:
    """Return differences of two phases of the HPA's sync, 15 s apart at most."""
    return source.uniform(0, 15, n) - source.uniform(0, 15, n)


def by_hand(differences: list[float]) -> float:
    """Return the p-value by going through every choice of signs."""
    observed = abs(sum(differences))
    sums = [
        abs(sum(sign * abs(value) for sign, value in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(total >= observed - 1e-9 for total in sums) / len(sums)


@pytest.mark.parametrize(("degrees", "of_95"), [(1, 12.706), (5, 2.571), (12, 2.179)])
def test_quantiles_are_two_sided(degrees: int, of_95: float) -> None:
    """NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2."""
    assert t_quantile(0.95, degrees) == pytest.approx(of_95, abs=5e-4)


@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 8, 11])
def test_the_sign_flip_test_counts_every_choice_of_signs(n: int) -> None:
    """The two halves together give the same count as all 2^n sums, with equal sizes too."""
    draw = np.random.default_rng(n)
    for differences in (draw.normal(1, 2, n).tolist(), draw.integers(-3, 4, n).tolist()):
        assert sign_flip_p(differences) == pytest.approx(by_hand(differences))


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1.0, 2, 3, 4, 5], 0.0625),  # five pairs never reach 5 %
        ([1.0, 2, 3, 4, 5, 6], 0.03125),
        ([1.0, 2, 0, 3, 0, 4], floor_of(4)),  # a pair without a difference has no sign
        ([0.0] * 8, 1),
        ([0.1, 0.2, -0.3], 1),  # a tie but for rounding
        ([1.0 + i / 7 for i in range(40)], floor_of(40)),  # exact with forty pairs, too
    ],
)
def test_its_p_has_a_floor(differences: list[float], p: float) -> None:
    """All signs alike reach 2/2^n, and nothing is below it."""
    assert sign_flip_p(differences) == p


def test_holm_multiplies_by_the_measures_left() -> None:
    """The order given is kept, and no value sinks again."""
    assert holm([0.04, 0.01, 0.03]) == pytest.approx((0.06, 0.03, 0.06))
    assert holm([0.5, 0.9]) == pytest.approx((1.0, 1.0))
    assert holm([]) == ()


def test_the_planned_looks_divide_alpha() -> None:
    """At 6 of 12 pairs half of alpha, at 8 two thirds (none was spent before), then the rest."""
    assert PLAN.alpha_at(6) == pytest.approx(0.025)
    assert PLAN.alpha_at(8) == pytest.approx(0.05 * 8 / 12)
    assert PLAN.alpha_at(12) == pytest.approx(0.05 - 4 * floor_of(8))
    assert Looks((6,)).alpha_at(6) == pytest.approx(SIGNIFICANCE)


@pytest.mark.parametrize("looks", [(6, 8, 12), (8, 16), (2, 4, 6, 8, 10, 12), (5, 6, 7)])
def test_no_plan_spends_more_than_alpha(looks: tuple[int, ...]) -> None:
    """The highest p-values that the looks may reject add up to at most alpha."""
    plan = Looks(looks)

    assert sum(plan.alpha_at(n) // floor_of(n) * floor_of(n) for n in looks) <= SIGNIFICANCE


@pytest.mark.parametrize("pairs", [1, 7, 13])
def test_a_look_outside_the_plan_is_refused(pairs: int) -> None:
    """A test "until it is significant" has no plan."""
    with pytest.raises(WrongInput) as refused:
        PLAN.alpha_at(pairs)

    assert (refused.value.field, refused.value.value) == ("pairs", pairs)


@pytest.mark.parametrize("looks", [(), (8, 6), (6, 6), (1, 6), (6, 41)])
def test_a_plan_that_cannot_be_tested_is_refused(looks: tuple[int, ...]) -> None:
    """Empty, not ascending, one pair, or more than the exact test can count."""
    with pytest.raises(WrongInput, match="looks"):
        Looks(looks)


@pytest.mark.parametrize("draw", [normal, two_phases])
@pytest.mark.parametrize("n", [5, 12])
def test_the_interval_covers_the_true_difference(draw: Draw, n: int) -> None:
    """95 % of the intervals contain it, also with five pairs; 2 % is three errors of the count."""
    source = np.random.default_rng(n)
    intervals = [Interval.of((draw(source, n) + 3).tolist()) for _ in range(TRIALS)]

    covered = np.mean([i is not None and i.low <= 3 <= i.high for i in intervals])

    assert covered == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("draw", [normal, two_phases])
def test_three_looks_find_no_difference_where_there_is_none(draw: Draw) -> None:
    """With bound 0 and no difference at most 5 % of the comparisons find one at any look."""
    source, found = np.random.default_rng(12), 0
    for _ in range(TRIALS):
        differences = draw(source, 12).tolist()
        found += any(
            (of := Interval.of(differences[:look])) is not None
            and of.is_beyond(0)
            and sign_flip_p(differences[:look]) <= PLAN.alpha_at(look)
            for look in PLANNED_LOOKS
        )

    assert found / TRIALS <= 0.05
