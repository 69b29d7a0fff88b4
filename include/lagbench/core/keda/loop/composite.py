"""The composite metric of scalingModifiers: a formula over the triggers' values, as served."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, trunc

from lagbench.core.keda.formula import (
    EvaluationFailedError,
    FormulaEvaluator,
    FormulaRefusedError,
    Node,
    NotEvaluatedError,
    compile_formula,
)
from lagbench.core.keda.object import ScaledObjectSpec
from lagbench.core.keda.refusals import NotSupported, TriggerRefused
from lagbench.errors import NotReady

# What a Go program gets on amd64 when it turns NaN, an infinity or a huge float into an int64.
NO_INTEGER_MILLI = -(2**63)
_FIELD = "spec.advanced.scalingModifiers.formula"


class FormulaFailed(NotReady):
    """A formula cannot be evaluated with the values at hand: one of them is nil, say."""


class CompositeFormula:
    """A formula ready for evaluation."""

    def __init__(self, formula: Node, *, nil_milli: int | None) -> None:
        """Take a compiled formula; ``nil_milli`` is the value of one that comes to nil, if any."""
        self._evaluator = FormulaEvaluator(formula)
        self._nil_milli = nil_milli

    def evaluate_milli(self, values: Mapping[str, float | None]) -> int:
        """Return the composite value in thousandths, truncated."""
        try:
            result = self._evaluator.evaluate(values)
        except EvaluationFailedError as error:
            raise FormulaFailed(f"error trying to run custom formula: {error}") from error
        if result is None:
            if self._nil_milli is None:
                raise FormulaFailed(
                    "scalingModifiers formula evaluated to nil but no fallback is configured"
                )
            return self._nil_milli
        if not isinstance(result, int | float):
            raise FormulaFailed(f"formula returned non-float result {result!r}")
        thousandths = float(result) * 1000
        if not isfinite(thousandths) or abs(thousandths) >= 2**63:
            return NO_INTEGER_MILLI
        return trunc(thousandths)


def compile_modifiers(spec: ScaledObjectSpec) -> CompositeFormula | None:
    """Return the formula of scalingModifiers, if any; ``TriggerRefused`` as KEDA words it.

    ``NotSupported`` when KEDA takes the formula and only this bench cannot evaluate it.
    """
    modifiers = spec.modifiers
    if modifiers is None:
        return None
    names = [item.name for item in spec.triggers if item.type not in {"cpu", "memory"}]
    try:
        formula = compile_formula(modifiers.formula, [name for name in names if name])
    except FormulaRefusedError as error:
        raise TriggerRefused(
            where=spec.name,
            field=_FIELD,
            value=modifiers.formula,
            keda_message=f"error validating formula in ScalingModifiers\n{error}",
            stage="hpa",
        ) from error
    nil = None
    if spec.fallback is not None:
        nil = trunc(spec.fallback.replicas * float(modifiers.target) * 1000)
    try:
        return CompositeFormula(formula, nil_milli=nil)
    except NotEvaluatedError as error:
        raise NotSupported(
            where=spec.name,
            field=_FIELD,
            value=modifiers.formula,
            allowed=f"arithmetic, conditions and numeric functions ({error})",
        ) from error
