"""A formula as KEDA compiles it: wrapped so that its result is a float, parsed and type-checked."""

from __future__ import annotations

from collections.abc import Collection

from lagbench.core.keda.formula.node import Node
from lagbench.core.keda.formula.syntax import parse_formula
from lagbench.core.keda.formula.tokens import FormulaError
from lagbench.core.keda.formula.trial import check_trial
from lagbench.core.keda.formula.value_types import FormulaTypes

_COMPOSITE = "let _kedaCompositeResult = "


class FormulaRefusedError(ValueError):
    """A formula that does not compile; the text is what KEDA would say, with the place."""


def wrapped_formula(formula: str) -> str:
    """Return the formula as KEDA compiles it; one that may come to nil keeps its nil."""
    if "??" in formula:
        if formula.startswith(_COMPOSITE):
            return formula
        return (
            f"{_COMPOSITE}({formula}); "
            "_kedaCompositeResult == nil ? nil : float(_kedaCompositeResult)"
        )
    return formula if formula.startswith("float(") else f"float({formula})"


def compile_formula(formula: str, trigger_names: Collection[str]) -> Node:
    """Return the tree of a formula over these triggers; ``FormulaRefusedError`` if it has none."""
    wrapped = wrapped_formula(formula)
    try:
        node = parse_formula(wrapped)
        FormulaTypes(frozenset(trigger_names)).of(node, {})
        check_trial(node)
    except FormulaError as error:
        raise FormulaRefusedError(error.shown_in(wrapped)) from error
    return node
