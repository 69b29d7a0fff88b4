"""The composite metric of scalingModifiers: a formula over the triggers' values.

Formulas are evaluated by simpleeval over a tree that ``formula_parser`` built: no attribute, no
import, no name but those of the triggers. Arithmetic is that of Go's float64.
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from math import ceil, copysign, floor, fmod, inf, isfinite, nan, trunc
from typing import Any

from simpleeval import (  # type: ignore[import-untyped]  # the library has no types
    EvalWithCompoundTypes,
    InvalidExpression,
)

from lagbench.core.formula_parser import IS_NIL, FormulaParser
from lagbench.core.formula_tokens import FormulaRefusedError
from lagbench.core.kafka_trigger import TriggerRefused
from lagbench.core.scaled_object import ScaledObjectSpec
from lagbench.errors import NotReady

_LONGEST_FORMULA = 2000
# What a Go program gets on amd64 when it turns NaN, an infinity or a huge float into an int64.
NO_INTEGER_MILLI = -(2**63)
_PREFIX = "let _kedaCompositeResult = ("
_SUFFIX = "); _kedaCompositeResult == nil ? nil : float(_kedaCompositeResult)"


class FormulaFailed(NotReady):
    """A formula cannot be evaluated with the values at hand: one of them is nil, say."""


class CompositeFormula:
    """A formula ready for evaluation."""

    def __init__(self, tree: ast.expr, *, nil_milli: int | None) -> None:
        """Keep the tree; ``nil_milli`` is the value of a formula that comes to nil, if any."""
        self._tree = tree
        self._nil_milli = nil_milli
        self._evaluator = EvalWithCompoundTypes(operators=_OPERATORS, functions=_FUNCTIONS)

    def evaluate_milli(self, values: Mapping[str, float | None]) -> int:
        """Return the composite value in thousandths, truncated."""
        self._evaluator.names = values
        try:
            result = self._evaluator.eval("", previously_parsed=self._tree)
        except (InvalidExpression, ArithmeticError, TypeError, ValueError, KeyError) as error:
            raise FormulaFailed(f"error trying to run custom formula: {error}") from error
        if result is None:
            if self._nil_milli is None:
                raise FormulaFailed(
                    "scalingModifiers formula evaluated to nil but no fallback is configured"
                )
            return self._nil_milli
        try:
            thousandths = float(result) * 1000
        except (TypeError, ValueError, OverflowError) as error:
            raise FormulaFailed(f"formula returned non-float result {result!r}") from error
        if not isfinite(thousandths) or abs(thousandths) >= 2**63:
            return NO_INTEGER_MILLI
        return trunc(thousandths)


def compile_modifiers(spec: ScaledObjectSpec) -> CompositeFormula | None:
    """Return the formula of scalingModifiers, if any; ``TriggerRefused`` as KEDA words it."""
    modifiers = spec.modifiers
    if modifiers is None:
        return None
    names = [item.name for item in spec.triggers if item.type not in {"cpu", "memory"}]
    try:
        tree = compile_formula(modifiers.formula, [name for name in names if name])
    except FormulaRefusedError as error:
        raise TriggerRefused(
            where=spec.name,
            field="spec.advanced.scalingModifiers.formula",
            value=modifiers.formula,
            keda_message=f"error validating formula in ScalingModifiers\n{error}",
            stage="hpa",
        ) from error
    nil = None
    if spec.fallback is not None:
        nil = trunc(spec.fallback.replicas * float(modifiers.target) * 1000)
    return CompositeFormula(tree, nil_milli=nil)


def compile_formula(formula: str, trigger_names: Collection[str]) -> ast.expr:
    """Return the tree of a formula; ``FormulaRefusedError`` with KEDA's reason when it is none."""
    if len(formula) > _LONGEST_FORMULA:
        message = f"compilation failed: expression exceeds {_LONGEST_FORMULA} characters"
        raise FormulaRefusedError(message, formula[:80], 0)
    if "??" in formula:
        # A formula that may come to nil keeps it; KEDA wraps the rest in a conversion.
        try:
            return FormulaParser(formula, trigger_names).parse().node
        except FormulaRefusedError as error:
            raise _moved(error, formula) from error
    wrapped = formula if formula.startswith("float(") else f"float({formula})"
    return FormulaParser(wrapped, trigger_names).parse().node


def _moved(error: FormulaRefusedError, formula: str) -> FormulaRefusedError:
    """Return the error with its place in the formula as KEDA wraps it."""
    message, _, rest = str(error).partition(" (1:")
    column = int(rest.partition(")")[0]) - 1
    return FormulaRefusedError(message, f"{_PREFIX}{formula}{_SUFFIX}", column + len(_PREFIX))


def _divide(left: float, right: float) -> float:
    if right:
        return left / right
    return nan if left == 0 or left != left else copysign(inf, left) * copysign(1, right)  # noqa: PLR0124 - the test for NaN


def _power(base: float, exponent: float) -> float:
    try:
        result = float(base) ** exponent
    except OverflowError:
        return inf
    except ZeroDivisionError:
        return inf
    return nan if isinstance(result, complex) else result


def _remainder(left: int, right: int) -> int:
    """Return the remainder with the sign of the dividend, as Go takes it."""
    if isinstance(left, float) or isinstance(right, float):
        raise TypeError("invalid operation: float64 % float64")
    return int(fmod(left, right))


def _flat(values: Iterable[Any]) -> list[float]:
    """Return numbers that are given one by one or in arrays."""
    parts = (item if isinstance(item, list) else [item] for item in values)
    return list(chain.from_iterable(parts))


def _round(value: float) -> float:
    """Round half away from zero."""
    return copysign(floor(abs(value) + 0.5), value) if isfinite(value) else value


def _whole(convert: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: float(convert(value)) if isfinite(value) else value


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: _divide,
    ast.Mod: _remainder,
    ast.Pow: _power,
    ast.USub: lambda a: -a,
    ast.UAdd: lambda a: +a,
    ast.Not: lambda a: not a,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.Gt: lambda a, b: a > b,
    ast.LtE: lambda a, b: a <= b,
    ast.GtE: lambda a, b: a >= b,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    IS_NIL: lambda value: value is None,
    "max": lambda *values: max(_flat(values)),
    "min": lambda *values: min(_flat(values)),
    "abs": abs,
    "ceil": _whole(ceil),
    "floor": _whole(floor),
    "round": _round,
    "float": float,
    "int": int,
    "sum": lambda *values: sum(_flat(values)),
    "mean": lambda *values: statistics.fmean(_flat(values)),
    "median": lambda *values: float(statistics.median(_flat(values))),
    "len": len,
    "count": lambda values: sum(bool(value) for value in values),
}
