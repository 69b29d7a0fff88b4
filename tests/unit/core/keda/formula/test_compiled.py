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


def test_the_place_is_marked_in_the_line() -> None:
    """The message shows the formula as KEDA compiles it, with a mark below the place."""
    found = problem("a + c", "a")

    assert found == "unknown name c (1:11)\n | float(a + c)\n | ..........^"


@pytest.mark.parametrize(
    ("modifiers", "said"),
    [
        ({"formula": "a", "target": "10"}, None),
        ({"formula": "a", "target": "2.5"}, None),
        ({"target": "10"}, "error ScalingModifiers.Formula is mandatory"),
        ({"formula": "a"}, "formula is given but target is empty"),
        ({"formula": "a", "target": "0"}, "valid target: %!w(<nil>)"),
        ({"formula": "a", "target": "-1"}, "valid target: %!w(<nil>)"),
        ({"formula": "a", "target": "ten"}, 'parsing "ten": invalid syntax'),
    ],
)
def test_formula_and_target_go_together(modifiers: dict[str, str], said: str | None) -> None:
    """A formula needs a target above zero, and a target needs a formula."""
    found = modifiers_problem(modifiers, ["a"])

    assert found is None if said is None else (found or "").endswith(said)
