"""The exact sign-flip test, its floor and Holm's correction."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from lagbench.core.compare.pairs.sign_flip import holm, sign_flip_p, smallest_p
from lagbench.core.significance import floor_of


def by_hand(differences: list[float]) -> float:
    """Return the p-value by going through every choice of signs."""
    observed = abs(sum(differences))
    sums = [
        abs(sum(sign * abs(value) for sign, value in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(total >= observed - 1e-9 for total in sums) / len(sums)


@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 8, 11])
def test_it_counts_every_choice_of_signs(n: int) -> None:
    """The two halves together give the same count as all 2^n sums, with equal sizes too."""
    draw = np.random.default_rng(n)
    for differences in (draw.normal(1, 2, n).tolist(), draw.integers(-3, 4, n).tolist()):
        assert sign_flip_p(differences) == pytest.approx(by_hand(differences))


@pytest.mark.parametrize(("n", "floor"), [(5, 0.0625), (6, 0.03125), (8, 0.0078125)])
def test_all_signs_alike_reach_the_floor(n: int, floor: float) -> None:
    """2/2^n: five pairs never reach 5 %, six do."""
    differences = [float(size) for size in range(1, n + 1)]

    assert sign_flip_p(differences) == smallest_p(differences) == floor_of(n) == floor


def test_a_pair_without_a_difference_has_no_sign() -> None:
    """Six pairs of which two are equal are four pairs to the test."""
    differences = [1.0, 2.0, 0.0, 3.0, 0.0, 4.0]

    assert sign_flip_p(differences) == smallest_p(differences) == floor_of(4)


def test_equal_pairs_show_nothing() -> None:
    """Without any difference p is 1, and could not be lower."""
    assert sign_flip_p([0.0] * 8) == smallest_p([0.0] * 8) == 1


def test_sums_that_are_equal_but_for_rounding_count() -> None:
    """0.1 + 0.2 and 0.3 are one size: the tie counts on both sides."""
    assert sign_flip_p([0.1, 0.2, -0.3]) == 1
    assert sign_flip_p([0.1, 0.2, 0.3]) == 0.25


def test_forty_pairs_are_exact_too() -> None:
    """The halves have 2^20 sums each; the floor is reached."""
    assert sign_flip_p([1.0 + i / 7 for i in range(40)]) == floor_of(40)


def test_holm_multiplies_by_the_measures_left() -> None:
    """Holm's own step-down on three values; the order given is kept, and no value sinks again."""
    assert holm([0.04, 0.01, 0.03]) == pytest.approx((0.06, 0.03, 0.06))
    assert holm([0.5, 0.9]) == pytest.approx((1.0, 1.0))
    assert holm([]) == ()
