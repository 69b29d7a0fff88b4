"""PromQL as far as the bench reads it: queries for a group's lag, and queries of many series.

Series of lag are those of kafka_exporter, and the recorder's own, which have no label of a group.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

_TOTALS = ("kafka_consumergroup_lag_sum", "lagbench_lag_records")
_BY_PARTITION = ("kafka_consumergroup_lag", "lagbench_partition_lag_records")
_OF_GROUP = ("consumergroup", "topic")

KNOWN_FORMS = (
    f'sum({_BY_PARTITION[0]}{{consumergroup="…"}}), sum({_TOTALS[0]}{{consumergroup="…"}}), '
    f"{_TOTALS[1]}, each also with a topic, with by (consumergroup, topic) or with or vector(0)"
)

_STRING = r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\''
_MATCHER = rf"\s*(?P<label>\w+)\s*=\s*(?P<value>{_STRING})\s*"
_SELECTOR = rf"(?P<metric>\w+)\s*(?:\{{(?P<matchers>(?:[^}}\"']|{_STRING})*)\}})?"
_BY = r"by\s*\(\s*(?:consumergroup|topic)(?:\s*,\s*(?:consumergroup|topic))*\s*,?\s*\)"
_QUERY = re.compile(
    rf"(?:(?P<sum>sum)\s*(?:{_BY}\s*)?\(\s*)?{_SELECTOR}\s*(?(sum)\)\s*(?:{_BY}\s*)?)"
    r"(?:or\s+vector\s*\(\s*0(?:\.0*)?\s*\)\s*)?"
)
_OF_A_RUN = re.compile(rf"(?P<label>\b(?:{'|'.join(_OF_GROUP)}))\s*=~?\s*(?:{_STRING})|{_STRING}")


@dataclass(frozen=True, slots=True)
class LagQuery:
    """A query for the total lag of one group; empty names are not asked for."""

    kind: Literal["kafka_exporter", "recorder"]
    group: str = ""
    topic: str = ""


def parse_lag_query(query: str) -> LagQuery | None:
    """Return the lag that the query selects; None if it is not the total lag of a group."""
    found = _QUERY.fullmatch(query.strip())
    if found is None:
        return None
    metric, is_sum = found["metric"], found["sum"] is not None
    if metric not in (_TOTALS + _BY_PARTITION if is_sum else _TOTALS):
        return None
    matchers = _equal_to(found["matchers"] or "")
    if matchers is None or not matchers.keys() <= set(_OF_GROUP):
        return None
    if metric.startswith("lagbench_"):
        return None if matchers else LagQuery("recorder")
    if "consumergroup" not in matchers:
        return None
    return LagQuery("kafka_exporter", matchers["consumergroup"], matchers.get("topic", ""))


def query_for_run(query: str, *, group: str, topic: str) -> str:
    """Return the query with the run's group and topic wherever it compares with one."""
    run = {"consumergroup": group, "topic": topic}

    def of_run(found: re.Match[str]) -> str:
        label = found["label"]
        # A text of the query that only looks like a matcher stays.
        return found[0] if label is None else f"{label}={json.dumps(run[label])}"

    return _OF_A_RUN.sub(of_run, query)


def _equal_to(matchers: str) -> Mapping[str, str] | None:
    """Return label -> value of the matchers; None if one is not a comparison for equality."""
    found: dict[str, str] = {}
    rest = matchers
    while rest.strip():
        match = re.match(rf"{_MATCHER}(?:,|$)", rest)
        if match is None:
            return None
        found[match["label"]] = match["value"][1:-1]
        rest = rest[match.end() :]
    return found


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
