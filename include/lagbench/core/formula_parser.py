"""Parser of scalingModifiers formulas into a Python syntax tree of harmless nodes.

Covers what a formula over numbers needs of KEDA's language: arithmetic, comparisons, logic, the
ternary, ``??``, nil, arrays and numeric functions. Everything else (members, pipes, strings,
closures, ``let``) is refused. Types are inferred, as KEDA compiles against float triggers.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass

from lagbench.core.formula_tokens import FormulaRefusedError, Token, tokenize

# Calls and names of the evaluator that no formula can spell.
IS_NIL = "<nil?>"
_ROUNDINGS = frozenset({"abs", "ceil", "floor", "round", "float", "int"})
_TAKES_ONE = _ROUNDINGS | {"len", "count"}
FUNCTIONS = _TAKES_ONE | {"max", "min", "sum", "mean", "median"}
# KEDA's language allows 10,000 nodes; here depth is bounded by Python's stack.
_MAX_NODES, _MAX_DEPTH = 300, 50
_BINARY = {
    "or": 10, "||": 10, "and": 15, "&&": 15,
    "==": 20, "!=": 20, "<": 20, ">": 20, "<=": 20, ">=": 20,
    "+": 30, "-": 30, "*": 60, "/": 60, "%": 60, "**": 100, "^": 100, "??": 500,
}  # fmt: skip
_UNARY = {"not": 50, "!": 50, "-": 90, "+": 90}
_ARITHMETIC: dict[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div,
    "%": ast.Mod, "**": ast.Pow, "^": ast.Pow,
}  # fmt: skip
_COMPARISONS: dict[str, type[ast.cmpop]] = {
    "==": ast.Eq, "!=": ast.NotEq, "<": ast.Lt, ">": ast.Gt, "<=": ast.LtE, ">=": ast.GtE,
}  # fmt: skip
_NUMBERS = frozenset({"int", "float64"})


@dataclass(frozen=True, slots=True)
class Typed:
    """A parsed piece with the type it has in KEDA's language ("unknown": decided at run time)."""

    node: ast.expr
    type: str


class FormulaParser:
    """One use: parses the tokens of one formula."""

    def __init__(self, source: str, names: Collection[str]) -> None:
        """Read ``source`` as KEDA wraps it; ``names`` are those of the triggers."""
        self._source, self._names = source, names
        self._tokens = tokenize(source)
        self._place = 0
        self._nodes = self._depth = 0

    def parse(self) -> Typed:
        """Return the tree of the whole formula."""
        parsed = self._expression(0)
        if self._current.kind != "EOF":
            raise self._unexpected(self._current)
        return parsed

    @property
    def _current(self) -> Token:
        return self._tokens[self._place]

    def _next(self) -> Token:
        token = self._current
        if token.kind != "EOF":
            self._place += 1
        return token

    def _is(self, *texts: str) -> bool:
        return self._current.kind in {"Operator", "Bracket"} and self._current.text in texts

    def _expect(self, text: str) -> None:
        if not self._is(text):
            raise self._unexpected(self._current)
        self._next()

    def _refused(self, message: str, column: int) -> FormulaRefusedError:
        return FormulaRefusedError(message, self._source, column)

    def _unexpected(self, token: Token) -> FormulaRefusedError:
        return self._refused(f"unexpected token {token}", token.column)

    def _made(self, node: ast.expr, kind: str) -> Typed:
        self._nodes += 1
        self._check_size()
        return Typed(node, kind)

    def _check_size(self) -> None:
        if self._nodes > _MAX_NODES or self._depth > _MAX_DEPTH:
            message = "compilation failed: expression exceeds maximum allowed nodes"
            raise self._refused(message, self._current.column)

    def _expression(self, precedence: int) -> Typed:
        self._depth += 1
        self._check_size()
        parsed = self._operators(precedence)
        self._depth -= 1
        return parsed

    def _operators(self, precedence: int) -> Typed:
        left = self._primary()
        previous = ""
        while self._current.kind == "Operator":
            token = self._current
            own = _BINARY.get(token.text)
            if own is None or own < precedence:
                break
            if previous == "??" and token.text != "??":
                message = (
                    f"Operator ({token.text}) and coalesce expressions (??) cannot be mixed. "
                    "Wrap either by parentheses."
                )
                raise self._refused(message, token.column)
            self._next()
            right = self._expression(own if token.text in {"**", "^"} else own + 1)
            left = self._binary(token, left, right)
            previous = token.text
        if precedence == 0:
            while self._is("?"):
                left = self._ternary(left)
        return left

    def _ternary(self, condition: Typed) -> Typed:
        column = self._next().column
        if condition.type not in {"bool", "unknown"}:
            message = f"non-bool expression (type {condition.type}) used as condition"
            raise self._refused(message, column)
        first = self._expression(0)
        self._expect(":")
        second = self._expression(0)
        kind = first.type if first.type == second.type else "unknown"
        return self._made(ast.IfExp(condition.node, first.node, second.node), kind)

    def _primary(self) -> Typed:
        token = self._next()
        if token.kind == "Operator" and token.text in _UNARY:
            return self._unary(token, self._expression(_UNARY[token.text]))
        if token.kind == "Bracket" and token.text == "(":
            inner = self._expression(0)
            self._expect(")")
            return inner
        if token.kind == "Bracket" and token.text == "[":
            items = self._items("]")
            return self._made(ast.List([item.node for item in items], ast.Load()), "array")
        if token.kind == "Number":
            return self._number(token)
        if token.kind == "String":
            return self._made(ast.Constant(token.text), "string")
        if token.kind == "Identifier":
            return self._named(token)
        raise self._unexpected(token)

    def _number(self, token: Token) -> Typed:
        text = token.text.replace("_", "")
        try:
            is_based = text[:2].lower() in {"0x", "0b", "0o"}
            if is_based or not set(text.lower()) & set(".e"):
                return self._made(ast.Constant(int(text, 0 if is_based else 10)), "int")
            return self._made(ast.Constant(float(text)), "float64")
        except ValueError as error:
            raise self._refused(f"invalid number literal: {error}", token.column) from error

    def _named(self, token: Token) -> Typed:
        constants = {"true": (True, "bool"), "false": (False, "bool"), "nil": (None, "nil")}
        if token.text in constants:
            value, kind = constants[token.text]
            return self._made(ast.Constant(value), kind)
        if self._is("("):
            return self._call(token)
        if token.text not in self._names:
            raise self._refused(f"unknown name {token.text}", token.column)
        return self._made(ast.Name(token.text, ast.Load()), "float64")

    def _items(self, closing: str) -> list[Typed]:
        items: list[Typed] = []
        while not self._is(closing):
            if items:
                self._expect(",")
            items.append(self._expression(0))
        self._expect(closing)
        return items

    def _call(self, name: Token) -> Typed:
        if name.text not in FUNCTIONS:
            raise self._refused(f"unknown name {name.text}", name.column)
        self._next()
        items = self._items(")")
        if not items:
            raise self._refused(f"not enough arguments to call {name.text}", name.column)
        if name.text in _TAKES_ONE and len(items) > 1:
            raise self._refused(f"too many arguments to call {name.text}", name.column)
        first = items[0]
        if name.text in _ROUNDINGS:
            if name.text == "float" and isinstance(first.node, ast.Constant):
                self._check_constant(name, first)
            if first.type not in _NUMBERS | {"unknown", "string"}:
                message = f"invalid argument for {name.text} (type {first.type})"
                raise self._refused(message, name.column)
        call = ast.Call(ast.Name(name.text, ast.Load()), [item.node for item in items], [])
        return self._made(call, _result_type(name.text, first))

    def _check_constant(self, name: Token, item: Typed) -> None:
        value = item.node.value if isinstance(item.node, ast.Constant) else None
        if item.type != "string" or not isinstance(value, str):
            return
        try:
            float(value)
        except ValueError as error:
            raise self._refused(f"invalid operation: float({value})", name.column) from error

    def _unary(self, token: Token, operand: Typed) -> Typed:
        is_logic = token.text in {"not", "!"}
        allowed = {"bool", "unknown"} if is_logic else _NUMBERS | {"unknown"}
        if operand.type not in allowed:
            message = f"invalid operation: {token.text} (mismatched type {operand.type})"
            raise self._refused(message, token.column)
        if is_logic:
            return self._made(ast.UnaryOp(ast.Not(), operand.node), "bool")
        operator = ast.USub() if token.text == "-" else ast.UAdd()
        return self._made(ast.UnaryOp(operator, operand.node), operand.type)

    def _binary(self, token: Token, left: Typed, right: Typed) -> Typed:
        text, types = token.text, (left.type, right.type)
        if text == "??":
            is_nil = ast.Call(ast.Name(IS_NIL, ast.Load()), [left.node], [])
            # KEDA's language looks at the left side once; here it may be computed twice.
            self._nodes += self._nodes
            return self._made(ast.IfExp(is_nil, right.node, left.node), "unknown")
        if text in _COMPARISONS:
            if text not in {"==", "!="} and not _fit(types, _NUMBERS):
                raise self._mismatch(token, types)
            compare = ast.Compare(left.node, [_COMPARISONS[text]()], [right.node])
            return self._made(compare, "bool")
        if text in {"and", "&&", "or", "||"}:
            if not _fit(types, frozenset({"bool"})):
                raise self._mismatch(token, types)
            operator = ast.And() if text in {"and", "&&"} else ast.Or()
            return self._made(ast.BoolOp(operator, [left.node, right.node]), "bool")
        if not _fit(types, frozenset({"int"}) if text == "%" else _NUMBERS):
            raise self._mismatch(token, types)
        node = ast.BinOp(left.node, _ARITHMETIC[text](), right.node)
        return self._made(node, _arithmetic_type(text, types))

    def _mismatch(self, token: Token, types: tuple[str, str]) -> FormulaRefusedError:
        message = f"invalid operation: {token.text} (mismatched types {types[0]} and {types[1]})"
        return self._refused(message, token.column)


def _fit(types: tuple[str, str], allowed: frozenset[str]) -> bool:
    return all(kind in allowed or kind == "unknown" for kind in types)


def _arithmetic_type(operator: str, types: tuple[str, str]) -> str:
    if operator in {"/", "**", "^"}:
        return "float64"
    if "unknown" in types:
        return "unknown"
    return "float64" if "float64" in types else "int"


def _result_type(function: str, first: Typed) -> str:
    if function in {"float", "mean", "median", "ceil", "floor", "round"}:
        return "float64"
    if function in {"int", "len", "count"}:
        return "int"
    return first.type if function == "abs" else "unknown"
