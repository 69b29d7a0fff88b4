"""``advanced.scalingModifiers`` as the webhook checks it: formula, target, metric type."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lagbench.core.admission.formula_syntax import parse_formula
from lagbench.core.admission.formula_tokens import FormulaError
from lagbench.core.admission.formula_types import FormulaTypes
from lagbench.core.admission.go_quote import go_quote

_COMPOSITE = "let _kedaCompositeResult = "
_FLOAT = re.compile(
    r"[+-]?(?:(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE
)


def modifiers_problem(modifiers: Mapping[str, Any], trigger_names: Sequence[str]) -> str | None:
    """Return the webhook's refusal; None when formula and target are accepted."""
    formula, target = modifiers.get("formula") or "", modifiers.get("target") or ""
    if not formula:
        return "error ScalingModifiers.Formula is mandatory"
    if not target:
        return _of("formula", "formula is given but target is empty")
    problem = formula_problem(compiled_formula(formula), trigger_names)
    if problem is not None:
        return _of("formula", problem)
    problem = _target_problem(target)
    return None if problem is None else _of("target", problem)


def compiled_formula(formula: str) -> str:
    """Return the formula as KEDA compiles it: its result turned into a float."""
    if "??" in formula:
        if formula.startswith(_COMPOSITE):
            return formula
        return (
            f"{_COMPOSITE}({formula}); "
            "_kedaCompositeResult == nil ? nil : float(_kedaCompositeResult)"
        )
    return formula if formula.startswith("float(") else f"float({formula})"


def formula_problem(formula: str, trigger_names: Sequence[str]) -> str | None:
    """Return why a formula does not compile over these triggers, with the place; None: it does."""
    try:
        FormulaTypes(frozenset(trigger_names)).of(parse_formula(formula), {})
    except FormulaError as error:
        return error.shown_in(formula)
    return None


def _target_problem(target: str) -> str | None:
    prefix = "error converting target for scalingModifiers (string->float) to valid target: "
    if not _FLOAT.fullmatch(target):
        return f"{prefix}strconv.ParseFloat: parsing {go_quote(target)}: invalid syntax"
    if float(target) <= 0:
        return f"{prefix}%!w(<nil>)"  # a slip of KEDA's: there is no error to print
    return None


def _of(part: str, problem: str) -> str:
    return f"error validating {part} in ScalingModifiers\n{problem}"
