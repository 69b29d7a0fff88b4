"""Decide whether a PromQL query gives at most one series: KEDA takes no more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

Series = Literal["scalar", "one", "many"]
_TOKEN = re.compile(
    r"""\s*(?:\#[^\n]*\n?|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)"""
    r"""|(?P<word>[A-Za-z_:][\w:.]*|[0-9.][\w.]*)|(?P<sign>==|!=|>=|<=|=~|!~|.))""",
    re.DOTALL,
)
_AGGREGATIONS = frozenset(
    (
        *("sum", "min", "max", "avg", "group", "stddev", "stdvar", "count", "quantile"),
        *("topk", "bottomk", "limitk", "limit_ratio", "count_values"),
    )
)
_OF_SEVERAL = frozenset({"limitk", "limit_ratio", "count_values"})
_ONE = frozenset({"vector", "absent", "absent_over_time"})
_SCALAR = frozenset({"scalar", "time", "pi"})
_ARITHMETIC = frozenset(["+", "-", "*", "/", "%", "^", "==", "!=", ">", "<", ">=", "<=", "atan2"])
_MATCHING = frozenset({"on", "ignoring", "group_left", "group_right"})
_NUMBER = re.compile(r"[0-9.].*|inf|nan", re.IGNORECASE)
_MOST_NESTED = 50
_CLOSING = {"(": ")", "{": "}", "[": "]"}


def gives_one_series(query: str) -> bool:
    """Return whether no more than one series can come, whatever the labels in Prometheus are."""
    if query.count("(") > _MOST_NESTED:
        return True  # not looked at
    return _series([found[1] or found[2] or found[3] or "" for found in _tokens(query)]) != "many"


def _tokens(query: str) -> list[tuple[str, str, str, str]]:
    found = (match.group(0, "text", "word", "sign") for match in _TOKEN.finditer(query))
    return [(a, b, c, d) for a, b, c, d in found if (b or c or d or "").strip()]


def _series(tokens: Sequence[str]) -> Series:
    for operators in ({"or"}, {"and", "unless"}, _ARITHMETIC):
        parts = _split(tokens, operators)
        if len(parts) == 1:
            continue
        sides = [_series(part) for part in parts if part]
        if "and" in operators:
            return sides[0]
        vectors = [side for side in sides if side != "scalar"]
        # Series of both sides are matched by their labels: one on a side leaves one.
        is_union = "or" in operators or {"group_left", "group_right"} & {*tokens}
        is_many = "many" in vectors if is_union else vectors and {*vectors} == {"many"}
        return "many" if is_many else "one" if vectors else "scalar"
    return _operand(tokens)


def _split(tokens: Sequence[str], operators: set[str] | frozenset[str]) -> list[list[str]]:
    """Return the parts between the operators outside of brackets, without labels to match on."""
    parts, at = [list[str]()], 0
    while at < len(tokens):
        word = tokens[at]
        end = _end(tokens, at)
        if end == at and word.lower() in operators:
            parts.append([])
            is_matching = True
            while is_matching and at + 1 < len(tokens):
                is_matching = tokens[at + 1].lower() in {*_MATCHING, "bool"}
                at += is_matching
                if is_matching and at + 1 < len(tokens) and tokens[at + 1] == "(":
                    at = _end(tokens, at + 1)
        else:
            parts[-1] += tokens[at : end + 1]
            at = end
        at += 1
    return parts


def _end(tokens: Sequence[str], at: int) -> int:
    """Return where a bracket is closed; the place itself if there is none."""
    closing, depth = _CLOSING.get(tokens[at]) if at < len(tokens) else None, 0
    for place in range(at, len(tokens)) if closing is not None else ():
        depth += (tokens[place] == tokens[at]) - (tokens[place] == closing)
        if depth == 0:
            return place
    return at


def _operand(tokens: Sequence[str]) -> Series:
    name = tokens[0].lower() if tokens else "0"
    if name == "(":
        return _series(tokens[1 : _end(tokens, 0)])
    if _NUMBER.fullmatch(name) or name in _SCALAR or name[0] in "\"'`":
        return "scalar"
    return _call(tokens, name) if "(" in tokens else "many"  # the series of a metric


def _call(tokens: Sequence[str], name: str) -> Series:
    opens, clause = tokens.index("("), next((w for w in ("by", "without") if w in tokens), "")
    if name in _AGGREGATIONS and clause and tokens.index(clause) < opens:
        opens = _end(tokens, opens) + 1  # the labels come first
    if opens >= len(tokens) or tokens[opens] != "(":
        return "many"
    arguments = _split(tokens[opens + 1 : _end(tokens, opens)], frozenset({","}))
    if name in _AGGREGATIONS:
        return _aggregated(tokens, name, clause, arguments)
    return "one" if name in _ONE or "many" not in map(_series, arguments) else "many"


def _aggregated(
    tokens: Sequence[str], name: str, clause: str, arguments: Sequence[Sequence[str]]
) -> Series:
    """Return one series if no label is kept, or each kept one has one value in the selectors."""
    kept: set[str] = set()
    if clause:
        at = tokens.index(clause) + 1
        kept = {word for word in tokens[at + 1 : _end(tokens, at)] if word != ","}
    inner = arguments[-1]
    pinned = {inner[at - 1] for at, word in enumerate(inner) if word == "=" and at}
    takes_one = name not in {"topk", "bottomk"} or list(arguments[0]) == ["1"]
    is_one = clause != "without" and kept <= pinned and takes_one and name not in _OF_SEVERAL
    return "one" if is_one or _series(inner) == "one" else "many"
