"""The planned looks and the alpha that each may spend."""

from __future__ import annotations

import pytest

from lagbench.core.compare.pairs.looks import Looks
from lagbench.core.significance import PLANNED_LOOKS, SIGNIFICANCE, floor_of
from lagbench.errors import WrongInput


def test_the_planned_looks_divide_alpha() -> None:
    """At 6 of 12 pairs half of alpha, at 8 two thirds (none was spent before), then the rest."""
    plan = Looks.planned(PLANNED_LOOKS)

    assert plan.alpha_at(6) == pytest.approx(0.025)
    assert plan.alpha_at(8) == pytest.approx(0.05 * 8 / 12)
    assert plan.alpha_at(12) == pytest.approx(0.05 - 4 * floor_of(8))


@pytest.mark.parametrize("looks", [(6, 8, 12), (6,), (8, 16), (2, 4, 6, 8, 10, 12), (5, 6, 7)])
def test_no_plan_spends_more_than_alpha(looks: tuple[int, ...]) -> None:
    """The highest p-values that the looks may reject add up to at most alpha."""
    plan = Looks.planned(looks)

    spent = sum(plan.alpha_at(n) // floor_of(n) * floor_of(n) for n in looks)

    assert spent <= SIGNIFICANCE


@pytest.mark.parametrize("looks", [(6,), (12,)])
def test_one_look_may_spend_everything(looks: tuple[int, ...]) -> None:
    """A plan of one look has the whole alpha."""
    assert Looks.planned(looks).alpha_at(looks[0]) == pytest.approx(SIGNIFICANCE)


@pytest.mark.parametrize("pairs", [1, 5, 7, 9, 13])
def test_a_look_outside_the_plan_is_refused(pairs: int) -> None:
    """A test "until it is significant" has no plan."""
    with pytest.raises(WrongInput) as refused:
        Looks.planned(PLANNED_LOOKS).alpha_at(pairs)

    assert (refused.value.field, refused.value.value) == ("pairs", pairs)


@pytest.mark.parametrize("looks", [(), (8, 6), (6, 6), (1, 6), (6, 41)])
def test_a_plan_that_cannot_be_tested_is_refused(looks: tuple[int, ...]) -> None:
    """Empty, not ascending, one pair, or more than the exact test can count."""
    with pytest.raises(WrongInput) as refused:
        Looks.planned(looks)

    assert refused.value.field == "looks"
