"""Which types a formula's operators take, and what they give, with Go's names of the types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lagbench.core.keda.formula.node import Node, integer_of
from lagbench.core.keda.formula.tokens import FormulaError

ANY, ARRAY, MAP = "interface {}", "[]interface {}", "map[string]interface {}"
FLOAT, INT, BOOL, STRING = "float64", "int", "bool", "string"
TIME, DURATION, NIL = "time.Time", "time.Duration", "unknown"
ENVIRONMENT = "map[string]float64"
NUMBERS = frozenset({FLOAT, INT})
COLLECTIONS = frozenset({ANY, ARRAY, MAP, ENVIRONMENT})

_Result = Callable[[str, str], str | None]
_SUMS = {(STRING, STRING): STRING, (TIME, DURATION): TIME, (DURATION, TIME): TIME}
_DIFFERENCES = {(TIME, TIME): DURATION, (TIME, DURATION): TIME}


def binary_type(node: Node, left: str, right: str) -> str:
    """Return the type of ``left op right``; ``FormulaError`` when the operator does not take it."""
    result = _OPERATORS[node.text](left, right)
    if result is None:
        message = f"invalid operation: {node.text} (mismatched types {left} and {right})"
        raise FormulaError(message, node.at)
    divisor = node.parts[1]
    if node.text == "%" and divisor.kind == "int" and integer_of(divisor.text) == 0:
        # Found when the constants are folded, or when KEDA runs the formula once.
        when = "" if node.parts[0].kind == "int" else "runtime error: "
        raise FormulaError(f"{when}integer divide by zero", node.at)
    return result


def unary_type(node: Node, inner: str) -> str:
    """Return the type of ``op inner``; ``FormulaError`` when the operator does not take it."""
    if node.text in {"!", "not"} and inner in {BOOL, ANY}:
        return BOOL
    if node.text in {"+", "-"} and inner in NUMBERS | {ANY}:
        return inner
    raise FormulaError(f"invalid operation: {node.text} (mismatched type {inner})", node.at)


def _within(allowed: frozenset[str] | set[str], result: str) -> _Result:
    """Return an operator that takes these types, and any value whose type is not known."""
    known = frozenset(allowed) | {ANY}
    return lambda left, right: result if {left, right} <= known else None


def _equality(left: str, right: str) -> str | None:
    is_comparable = left == right or {left, right} <= NUMBERS or {left, right} & {ANY, NIL}
    return BOOL if is_comparable else None


def _order(left: str, right: str) -> str | None:
    ordered = {STRING, TIME, DURATION}
    is_known = {left, right} <= NUMBERS or (left == right and left in ordered)
    is_open = ANY in {left, right} and {left, right} <= NUMBERS | ordered | {ANY}
    return BOOL if is_known or is_open else None


def _sum(left: str, right: str) -> str | None:
    return _arithmetic(left, right, _SUMS, {STRING, TIME, DURATION})


def _difference(left: str, right: str) -> str | None:
    return _arithmetic(left, right, _DIFFERENCES, {TIME, DURATION})


def _product(left: str, right: str) -> str | None:
    if DURATION in {left, right} and {left, right} <= NUMBERS | {DURATION}:
        return DURATION
    return _arithmetic(left, right, {}, {DURATION})


def _arithmetic(
    left: str, right: str, pairs: Mapping[tuple[str, str], str], others: set[str]
) -> str | None:
    if {left, right} <= NUMBERS:
        return FLOAT if FLOAT in {left, right} else INT
    if left == right == DURATION:
        return DURATION
    if (left, right) in pairs:
        return pairs[left, right]
    is_open = ANY in {left, right} and {left, right} <= NUMBERS | others | {ANY}
    return ANY if is_open else None


def _coalesced(left: str, right: str) -> str:
    if left == NIL:
        return right
    return left if right in {NIL, left} else ANY


def _membership(_left: str, right: str) -> str | None:
    return BOOL if right in COLLECTIONS else None


_TABLE: tuple[tuple[str, _Result], ...] = (
    ("== !=", _equality),
    ("or || and &&", _within({BOOL}, BOOL)),
    ("< > >= <=", _order),
    ("+", _sum),
    ("-", _difference),
    ("*", _product),
    ("/ ** ^", _within(NUMBERS, FLOAT)),
    ("%", _within({INT}, INT)),
    ("..", _within({INT}, ARRAY)),
    ("??", _coalesced),
    ("in", _membership),
    ("matches contains startsWith endsWith", _within({STRING}, BOOL)),
)
_OPERATORS = {name: result for names, result in _TABLE for name in names.split()}
