"""The lowest p-value of a number of pairs, and the numbers that an experiment may have."""

from __future__ import annotations

import pytest

from lagbench.core.experiment.experiment import allowed_pairs
from lagbench.core.significance import PLANNED_LOOKS, SIGNIFICANCE, floor_of


@pytest.mark.parametrize(
    ("pairs", "floor"), [(-(10**400), 1), (0, 1), (1, 1), (2, 0.5), (6, 1 / 32), (10**400, 0)]
)
def test_the_lowest_p_value_halves_with_each_pair(pairs: int, floor: float) -> None:
    """It is 2/2^n and at most 1, for any number that a file can have."""
    assert floor_of(pairs) == floor


def test_an_experiment_may_have_the_planned_numbers_of_pairs() -> None:
    """Each of them can show a difference; one pair less than the first cannot."""
    assert [allowed_pairs(pairs) for pairs in PLANNED_LOOKS] == list(PLANNED_LOOKS)
    assert floor_of(PLANNED_LOOKS[0]) <= SIGNIFICANCE < floor_of(PLANNED_LOOKS[0] - 1)
    with pytest.raises(ValueError, match=r"0\.0625"):
        allowed_pairs(5)
    with pytest.raises(ValueError, match="12"):
        allowed_pairs(7)
