"""The functions of a formula: what they take, as far as numbers need it, and what they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from lagbench.core.keda.formula.node import PREDICATES, Node
from lagbench.core.keda.formula.operators import (
    ANY,
    ARRAY,
    BOOL,
    COLLECTIONS,
    DURATION,
    FLOAT,
    INT,
    NIL,
    NUMBERS,
    STRING,
    TIME,
)
from lagbench.core.keda.formula.tokens import FormulaError
from lagbench.core.kubernetes import go_float

# Of these only the result matters here; their arguments must be well-formed.
_TABLE = (
    (STRING, "string trim trimPrefix trimSuffix upper lower replace repeat join"),
    (STRING, "type toJSON toBase64 fromBase64"),
    (ARRAY, "split splitAfter keys values toPairs reverse uniq concat flatten sort take"),
    (INT, "indexOf lastIndexOf bitnot bitand bitor bitxor bitnand bitshl bitshr bitushr"),
    (BOOL, "hasPrefix hasSuffix"),
    (ANY, "first last get fromJSON fromPairs timezone"),
    (TIME, "now date"),
    (DURATION, "duration"),
)
_RESULTS = {name: result for result, names in _TABLE for name in names.split()}
_PREDICATE_TABLE = (
    (BOOL, "all none any one"),
    (ARRAY, "filter map sortBy"),
    (INT, "count findIndex findLastIndex"),
    ("map[interface {}][]interface {}", "groupBy"),
)
_PREDICATE_RESULTS = {name: result for result, names in _PREDICATE_TABLE for name in names.split()}
_ASKS_A_QUESTION = frozenset(PREDICATES) - {"map", "sum", "groupBy", "sortBy", "reduce"}
_CONVERSIONS = frozenset({"abs", "ceil", "floor", "round", "int", "float", "len"})
_AGGREGATES = frozenset({"max", "min", "mean", "median"})
FUNCTIONS = _CONVERSIONS | _AGGREGATES | frozenset(_RESULTS) | frozenset(PREDICATES)


def call_type(node: Node, arguments: Sequence[str]) -> str:
    """Return what a function gives; ``FormulaError`` when it is unknown or takes something else."""
    name = node.text
    if name in PREDICATES:
        return _predicate(node, arguments)
    if name in _CONVERSIONS:
        return _conversion(node, arguments)
    if name in _AGGREGATES:
        return _aggregate(node, arguments)
    if name in _RESULTS:
        return _RESULTS[name]
    raise FormulaError(f"unknown name {name}", node.at)


def _predicate(node: Node, arguments: Sequence[str]) -> str:
    if arguments[0] not in COLLECTIONS:
        message = f"builtin {node.text} takes only array (got {arguments[0]})"
        raise FormulaError(message, node.parts[0].at)
    asks = node.text in _ASKS_A_QUESTION and len(arguments) > 1
    if asks and arguments[1] not in {BOOL, ANY}:
        message = f"predicate should return boolean (got {arguments[1]})"
        raise FormulaError(message, node.parts[1].at)
    return _PREDICATE_RESULTS.get(node.text, ANY)


def _conversion(node: Node, arguments: Sequence[str]) -> str:
    name, count = node.text, len(arguments)
    if count != 1:
        raise FormulaError(f"invalid number of arguments (expected 1, got {count})", node.at)
    given, allowed = arguments[0], NUMBERS | {ANY}
    if name == "len":
        allowed = COLLECTIONS | {STRING}
    elif name in {"int", "float"}:
        allowed |= {STRING}
        _check_literal(node)
    if given not in allowed:
        _refuse_argument(node, given)
    if name == "abs":
        return given
    return INT if name in {"int", "len"} else FLOAT


def _check_literal(node: Node) -> None:
    """Reject the conversion of a text that is not a number: KEDA finds it by one trial."""
    literal = node.parts[0]
    if literal.kind == "string":
        try:
            go_float(literal.text)
        except ValueError as error:
            raise FormulaError(
                f"invalid operation: {node.text}({literal.text})", node.at
            ) from error


def _aggregate(node: Node, arguments: Sequence[str]) -> str:
    if not arguments:
        raise FormulaError(f"not enough arguments to call {node.text}", node.at)
    for given in arguments:
        if given in {ANY, ARRAY}:
            return ANY
        if given not in NUMBERS:
            _refuse_argument(node, given)
    return arguments[0]


def _refuse_argument(node: Node, given: str) -> NoReturn:
    shown = "%!s(<nil>)" if given == NIL else given
    raise FormulaError(f"invalid argument for {node.text} (type {shown})", node.at)
