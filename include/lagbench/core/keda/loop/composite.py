"""The composite metric of scalingModifiers: a formula over the triggers' values, as served."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, trunc

from lagbench.core.keda.formula import EvaluationFailedError, Formula
from lagbench.core.keda.object.spec import ScaledObjectSpec
from lagbench.core.keda.triggers.other_types import RESOURCE_TYPES
from lagbench.errors import NotReady

# What a Go program gets on amd64 when it turns NaN, an infinity or a huge float into an int64.
NO_INTEGER_MILLI = -(2**63)


class FormulaFailed(NotReady):
    """A formula cannot be evaluated with the values at hand: one of them is nil, say."""


class CompositeFormula:
    """A formula ready for evaluation; ``nil_milli`` is the value of one that comes to nil."""

    def __init__(self, formula: Formula, *, nil_milli: int | None) -> None:
        """Take a formula that was read."""
        self._formula, self._nil_milli = formula, nil_milli

    def evaluate_milli(self, values: Mapping[str, float | None]) -> int:
        """Return the composite value in thousandths, truncated."""
        try:
            result = self._formula.evaluate(values)
        except EvaluationFailedError as error:
            raise FormulaFailed(f"the formula gives no number: {error}") from error
        if result is None:
            if self._nil_milli is None:
                raise FormulaFailed("the formula gives nil, and no fallback is configured")
            return self._nil_milli
        thousandths = result * 1000
        if not isfinite(thousandths) or abs(thousandths) >= 2**63:
            return NO_INTEGER_MILLI
        return trunc(thousandths)


def compile_modifiers(spec: ScaledObjectSpec) -> CompositeFormula | None:
    """Return the formula of scalingModifiers, if any; the parser of the object has checked it."""
    modifiers = spec.modifiers
    if modifiers is None:
        return None
    names = [item.name for item in spec.triggers if item.name and item.type not in RESOURCE_TYPES]
    nil = None
    if spec.fallback is not None:
        nil = trunc(spec.fallback.replicas * float(modifiers.target) * 1000)
    return CompositeFormula(Formula(modifiers.formula, names), nil_milli=nil)
