"""Determine the type of a scaling formula; expr-lang's compiler rejects a wrong one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lagbench.core.keda.formula.functions import FUNCTIONS, call_type
from lagbench.core.keda.formula.node import Node
from lagbench.core.keda.formula.operators import (
    ANY,
    ARRAY,
    BOOL,
    ENVIRONMENT,
    FLOAT,
    INT,
    MAP,
    NIL,
    STRING,
    binary_type,
    unary_type,
)
from lagbench.core.keda.formula.tokens import FormulaError

_LITERALS = {"int": INT, "float": FLOAT, "string": STRING, "bool": BOOL, "nil": NIL, "pointer": ANY}
_SCALARS = frozenset({FLOAT, INT, BOOL})


class FormulaTypes:
    """Finds the type of each node; the variables are numbers, ``let`` adds others."""

    def __init__(self, variables: frozenset[str]) -> None:
        """Know the triggers' names."""
        self._variables = variables

    def of(self, node: Node, scope: Mapping[str, str]) -> str:
        """Return a node's type; ``FormulaError`` for the first operation that has none."""
        if node.kind in _LITERALS:
            return _LITERALS[node.kind]
        if node.kind == "name":
            return self._name(node, scope)
        if node.kind == "let":
            return self._let(node, scope)
        parts = [self.of(part, scope) for part in node.parts]
        if node.kind == "call":
            return self._call(node, parts, scope)
        operators: dict[str, Callable[..., str]] = {
            "condition": _condition,
            "unary": unary_type,
            "binary": binary_type,
        }
        operator = operators.get(node.kind)
        return operator(node, *parts) if operator is not None else self._part(node, parts)

    def _name(self, node: Node, scope: Mapping[str, str]) -> str:
        if node.text == "$env":
            return ENVIRONMENT
        if node.text not in scope and node.text not in self._variables:
            raise FormulaError(f"unknown name {node.text}", node.at)
        return scope.get(node.text, FLOAT)

    def _let(self, node: Node, scope: Mapping[str, str]) -> str:
        if node.text in self._variables or node.text in FUNCTIONS:
            raise FormulaError(f"cannot redeclare {node.text}", node.at)
        if node.text in scope:
            raise FormulaError(f"cannot redeclare variable {node.text}", node.at)
        value = self.of(node.parts[0], scope)
        return self.of(node.parts[1], {**scope, node.text: value})

    def _call(self, node: Node, parts: list[str], scope: Mapping[str, str]) -> str:
        if node.text not in FUNCTIONS and (node.text in scope or node.text in self._variables):
            raise FormulaError(f"{scope.get(node.text, FLOAT)} is not callable", node.at)
        return call_type(node, parts)

    def _part(self, node: Node, parts: list[str]) -> str:
        """Return the type of a list, a map, a sequence, or of what is taken out of one."""
        whole = {"array": ARRAY, "map": MAP, "method": ANY}.get(node.kind)
        if whole is not None:
            return whole
        owner = parts[0]
        if node.kind in {"sequence", "predicate"}:
            return parts[-1]
        if owner in _SCALARS:
            raise FormulaError(_no_part(node, parts), node.at)
        if owner == ENVIRONMENT:
            if node.kind == "member" and node.text not in self._variables:
                raise FormulaError(f"unknown name {node.text}", node.at)
            return FLOAT
        if owner == STRING:
            return STRING
        return ARRAY if node.kind == "slice" else ANY


def _condition(node: Node, asked: str, first: str, second: str) -> str:
    if asked not in {BOOL, ANY}:
        message = f"non-bool expression (type {asked}) used as condition"
        raise FormulaError(message, node.parts[0].at)
    if NIL in {first, second}:
        return second if first == NIL else first
    return first if first == second else ANY


def _no_part(node: Node, parts: list[str]) -> str:
    if node.kind == "member":
        return f"type {parts[0]} has no field {node.text}"
    return (
        f"cannot slice {parts[0]}"
        if node.kind == "slice"
        else (f"type {parts[0]}[{parts[1]}] is undefined")
    )
