"""What a measure must be, for a claim without a test."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lagbench.core.experiment.expected_value import ExpectedValue


@pytest.mark.parametrize(
    ("given", "text", "holds", "does_not"),
    [
        (0, "0", [0], [1, -1]),
        ({"above": 0}, "above 0", [1, 0.5], [0]),
        ({"at_least": 13}, "at least 13", [13, 14], [12]),
        ({"below": 20}, "below 20", [19.9], [20]),
        ({"at_most": 5}, "at most 5", [5], [5.1]),
        ({"above": 0, "at_most": 1000}, "above 0 and at most 1,000", [1, 1000], [0, 1001]),
    ],
)
def test_a_value_meets_its_limits(
    given: Any, text: str, holds: list[float], does_not: list[float]
) -> None:
    """A plain number is that number; several limits hold together."""
    expected = ExpectedValue.model_validate(given)

    assert expected.text == text
    assert all(expected.holds(value, value) for value in holds)
    assert all(expected.holds(value, value) is False for value in does_not)


def test_a_precision_that_reaches_over_the_limit_leaves_it_open() -> None:
    """0 for certain and up to 3 in doubt are neither 0 nor above 0; 1 to 3 are above 0."""
    assert ExpectedValue.model_validate(0).holds(0, 3) is None
    assert ExpectedValue(above=0).holds(0, 3) is None
    assert ExpectedValue(above=0).holds(1, 3) is True
    assert ExpectedValue(below=20).holds(19, 21) is None


@pytest.mark.parametrize("given", [{}, {"over": 1}, True, "0", {"above": "0"}])
def test_something_else_is_rejected(given: Any) -> None:
    """No limit at all, an unknown one, or one that is no number."""
    with pytest.raises(ValidationError):
        ExpectedValue.model_validate(given)
