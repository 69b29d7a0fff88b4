"""Build a Python syntax tree of harmless nodes from a formula; simpleeval evaluates it.

It covers formulas over numbers: arithmetic, comparisons, logic, conditions, ``let``, ``??``, nil,
arrays and numeric functions. Other parts of KEDA's language (members, predicates, maps, texts'
operators, ranges) are rejected by name.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from lagbench.core.keda.formula.node import Node, integer_of

FUNCTIONS = frozenset(
    {"abs", "ceil", "floor", "round", "float", "int", "len", "count"}
    | {"max", "min", "sum", "mean", "median"}
)
_TAKES_ONE = frozenset({"count", "sum"})  # a second argument would be a predicate
_ARITHMETIC: dict[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div,
    "%": ast.Mod, "**": ast.Pow, "^": ast.Pow,
}  # fmt: skip
_COMPARISONS: dict[str, type[ast.cmpop]] = {
    "==": ast.Eq, "!=": ast.NotEq, "<": ast.Lt, ">": ast.Gt, "<=": ast.LtE, ">=": ast.GtE,
    "in": ast.In,
}  # fmt: skip
_LOGIC: dict[str, type[ast.boolop]] = {
    "and": ast.And, "&&": ast.And, "or": ast.Or, "||": ast.Or,
}  # fmt: skip
_UNARY: dict[str, type[ast.unaryop]] = {
    "not": ast.Not, "!": ast.Not, "-": ast.USub, "+": ast.UAdd,
}  # fmt: skip


class NotEvaluatedError(ValueError):
    """KEDA's language has this, the bench's evaluator does not."""


class Coalesce(ast.expr):
    """``left ?? right``: the right side is looked at only when the left one is nil."""

    _fields = ("left", "right")
    left: ast.expr
    right: ast.expr


class Let(ast.expr):
    """``let name = value; body``."""

    _fields = ("name", "value", "body")
    name: str
    value: ast.expr
    body: ast.expr


def python_tree(node: Node) -> ast.expr:
    """Return the tree of a formula that has been type-checked."""
    if node.kind == "name":
        return ast.Name(node.text, ast.Load())
    if node.kind in _LITERALS:
        return ast.Constant(_LITERALS[node.kind](node.text))
    build = _BUILDERS.get(node.kind)
    is_known_call = node.text in FUNCTIONS and (node.text not in _TAKES_ONE or len(node.parts) == 1)
    if build is None or (node.kind == "call" and not is_known_call):
        raise NotEvaluatedError(f"{node.text or node.kind} is not evaluated here")
    return build(node, [python_tree(part) for part in node.parts])


def _binary(node: Node, parts: list[ast.expr]) -> ast.expr:
    text, (left, right) = node.text, parts
    if text == "??":
        return Coalesce(left=left, right=right)  # type: ignore[call-arg]
    if text in _LOGIC:
        return ast.BoolOp(_LOGIC[text](), [left, right])
    if text in _COMPARISONS:
        return ast.Compare(left, [_COMPARISONS[text]()], [right])
    if text in _ARITHMETIC:
        return ast.BinOp(left, _ARITHMETIC[text](), right)
    raise NotEvaluatedError(f"the operator {text} is not evaluated here")


def _let(node: Node, parts: list[ast.expr]) -> ast.expr:
    value, body = parts
    return Let(name=node.text, value=value, body=body)  # type: ignore[call-arg]


_LITERALS: dict[str, Callable[[str], float | str | None]] = {
    "int": integer_of,
    "float": lambda text: float(text.replace("_", "")),
    "string": lambda text: text,
    "bool": lambda text: text == "true",
    "nil": lambda _text: None,
}
_BUILDERS: dict[str, Callable[[Node, list[ast.expr]], ast.expr]] = {
    "let": _let,
    "condition": lambda _, parts: ast.IfExp(*parts),
    "unary": lambda node, parts: ast.UnaryOp(_UNARY[node.text](), *parts),
    "binary": _binary,
    "array": lambda _, parts: ast.List(parts, ast.Load()),
    "sequence": lambda _, parts: parts[-1],
    "call": lambda node, parts: ast.Call(ast.Name(node.text, ast.Load()), parts, []),
}
