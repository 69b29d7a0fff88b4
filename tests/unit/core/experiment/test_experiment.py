"""An experiment is checked field by field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.fakes.experiments import experiment


@pytest.mark.parametrize(
    "changed",
    [
        {"pairs": 5},
        {"pairs": 0},
        {"pairs": 7},
        {"pairs": 10**9},
        {"pairs": "6"},
        {"cells": [{"name": "only"}]},
        {"cells": [{"name": "a"}, {"name": "a"}]},
        {"seeds": [1, 2, 3]},
        {"seeds": [1, 2, 3, 4, 5, 5]},
        {"bounds": {"flips": {"relativ": 1.0}}},
        {"hours": 0},
    ],
)
def test_a_wrong_field_is_rejected_by_its_name(changed: dict[str, Any]) -> None:
    """Five pairs are refused because they can decide nothing."""
    with pytest.raises(ValidationError) as refused:
        experiment(**changed)

    (problem,) = refused.value.errors()
    (field,) = changed
    assert field in (*problem["loc"], problem["msg"].split()[2])


def test_the_settings_of_a_cell_are_those_of_all_cells_and_its_own() -> None:
    """They are texts, as the command line takes them; a cell's own setting wins."""
    found = experiment(
        overrides={"consumer.process_ms": 4, "tail": "none", "consumer.drain": True},
        cells=[{"name": "a"}, {"name": "b", "overrides": {"tail": "until_settled"}}],
    )

    assert found.overrides_of(found.cells[0]) == {
        "consumer.process_ms": "4",
        "tail": "none",
        "consumer.drain": "true",
    }
    assert found.overrides_of(found.cells[1])["tail"] == "until_settled"


def test_the_same_cell_twice_is_a_noise_floor() -> None:
    """Names alone make no difference; a policy or a setting does."""
    assert experiment(cells=[{"name": "a"}, {"name": "b"}]).is_noise_floor
    assert not experiment().is_noise_floor
    assert not experiment(cells=[{"name": "a"}, {"name": "b", "policy": "p"}]).is_noise_floor


def test_more_pairs_take_more_hours() -> None:
    """The file's hours are those of its own number of pairs."""
    assert experiment().hours_of(12) == 2.0
