"""Formulas of scalingModifiers: rejected where expr-lang's compiler rejects them, in its words."""

import json
from pathlib import Path
from typing import Any

import pytest

from lagbench.core.keda.formula.compiled import FormulaRefusedError, compile_formula
from lagbench.core.policy.admission.scaling_modifiers import modifiers_problem

RECORDED = json.loads((Path(__file__).parents[4] / "data" / "scaling_formulas.json").read_text())


def problem(formula: str, *names: str) -> str:
    """Return why a formula does not compile; empty when it does."""
    try:
        compile_formula(formula, names)
    except FormulaRefusedError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("row", RECORDED["rows"], ids=lambda row: row["formula"])
def test_recorded_formulas(row: dict[str, Any]) -> None:
    """163 formulas compile, or fail with the recorded first line."""
    found = problem(row["formula"], "a", "b", "trig_one")

    if row["formula"] == "$env":  # refused when it is run; here already by its type
        assert found
    else:
        assert found.split("\n")[0] == row["message"]


@pytest.mark.parametrize(
    ("modifiers", "is_right"),
    [
        ({"formula": "a", "target": "10"}, True),
        ({"formula": "a", "target": "2.5"}, True),
        ({"target": "10"}, False),
        ({"formula": "a"}, False),
        ({"formula": "a", "target": "0"}, False),
        ({"formula": "a", "target": "-1"}, False),
        ({"formula": "a", "target": "ten"}, False),
    ],
)
def test_formula_and_target_go_together(modifiers: dict[str, str], *, is_right: bool) -> None:
    """A formula needs a target above zero, and a target needs a formula."""
    assert (modifiers_problem(modifiers, ["a"]) is None) is is_right
