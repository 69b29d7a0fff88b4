"""``advanced.scalingModifiers`` as the webhook checks it: formula, target, metric type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lagbench.core.keda.formula import FormulaRefusedError, compile_formula
from lagbench.core.keda.object import missing_problem, target_problem


def modifiers_problem(modifiers: Mapping[str, Any], trigger_names: Sequence[str]) -> str | None:
    """Return the webhook's refusal; None when formula and target are accepted."""
    formula, target = modifiers.get("formula") or "", modifiers.get("target") or ""
    problem = missing_problem(formula, target)
    if problem is not None:
        return problem
    try:
        compile_formula(formula, trigger_names)
    except FormulaRefusedError as error:
        return f"error validating formula in ScalingModifiers\n{error}"
    return target_problem(target)
