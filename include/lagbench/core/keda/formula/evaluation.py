"""Evaluation of a formula by simpleeval, with the arithmetic of Go's float64.

No attribute, no import, no function and no name but those of formulas and triggers.
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from math import ceil, copysign, floor, fmod, inf, isfinite, nan
from typing import Any

from simpleeval import (  # type: ignore[import-untyped]  # the library has no types
    EvalWithCompoundTypes,
    InvalidExpression,
)

from lagbench.core.keda.formula.node import Node
from lagbench.core.keda.formula.python_tree import Coalesce, Let, python_tree
from lagbench.core.kubernetes import go_float


class EvaluationFailedError(ValueError):
    """The values at hand give no result: one of them is nil, say."""


class FormulaEvaluator:
    """A compiled formula; evaluates it for one set of values at a time."""

    def __init__(self, formula: Node) -> None:
        """Translate the tree; ``NotEvaluatedError`` for what the evaluator does not know."""
        self._tree = python_tree(formula)
        self._evaluator = _Evaluator(operators=_OPERATORS, functions=_FUNCTIONS)

    def evaluate(self, values: Mapping[str, float | None]) -> object:
        """Return the result, None for nil; ``EvaluationFailedError`` when there is none."""
        self._evaluator.names = dict(values)
        try:
            result: object = self._evaluator.eval("", previously_parsed=self._tree)
        except (InvalidExpression, ArithmeticError, TypeError, ValueError, KeyError) as error:
            raise EvaluationFailedError(str(error)) from error
        return result


class _Evaluator(EvalWithCompoundTypes):  # type: ignore[misc]  # the library has no types
    names: dict[str, object]

    def __init__(self, **known: Mapping[Any, Any]) -> None:
        super().__init__(**known)
        self.nodes[Coalesce] = self._coalesced
        self.nodes[Let] = self._with_name

    def _coalesced(self, node: Coalesce) -> object:
        left = self._eval(node.left)
        return self._eval(node.right) if left is None else left

    def _with_name(self, node: Let) -> object:
        outer = self.names
        self.names = {**outer, node.name: self._eval(node.value)}
        try:
            return self._eval(node.body)
        finally:
            self.names = outer


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


def _to_float(value: float | str) -> float:
    return go_float(value) if isinstance(value, str) else float(value)


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
    ast.In: lambda item, items: item in items,
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
# One for each name in python_tree.FUNCTIONS.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max": lambda *values: max(_flat(values)),
    "min": lambda *values: min(_flat(values)),
    "abs": abs,
    "ceil": _whole(ceil),
    "floor": _whole(floor),
    "round": _round,
    "float": _to_float,
    "int": int,
    "sum": sum,
    "mean": lambda *values: statistics.fmean(_flat(values)),
    "median": lambda *values: float(statistics.median(_flat(values))),
    "len": len,
    "count": lambda values: sum(bool(value) for value in values),
}
