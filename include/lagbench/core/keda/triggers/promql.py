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
    f"{_TOTALS[1]}, each also with a topic, with by (consumergroup, topic) or with or vector(0); "
    'or sum(rate(kafka_topic_partition_current_offset{topic="…"}[30s])) + LAG / 10, LAG one of them'
)

_STRING = r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\''
_MATCHER = rf"\s*(?P<label>\w+)\s*=\s*(?P<value>{_STRING})\s*"
_SELECTOR = rf"(?P<metric>\w+)\s*(?:\{{(?P<matchers>(?:[^}}\"']|{_STRING})*)\}})?"
_BY = r"by\s*\(\s*(?:consumergroup|topic)(?:\s*,\s*(?:consumergroup|topic))*\s*,?\s*\)"
_QUERY = re.compile(
    rf"(?:(?P<sum>sum)\s*(?:{_BY}\s*)?\(\s*)?{_SELECTOR}\s*(?(sum)\)\s*(?:{_BY}\s*)?)"
    r"(?:or\s+vector\s*\(\s*0(?:\.0*)?\s*\)\s*)?"
)
_LOAD = re.compile(
    r"\s*sum\s*\(\s*rate\s*\(\s*kafka_topic_partition_current_offset\s*"
    rf"\{{(?P<matchers>(?:[^}}\"']|{_STRING})*)\}}\s*\[(?P<range>\d+)s\]\s*\)\s*\)\s*"
    r"\+\s*(?P<lag>.+?)\s*/\s*(?P<seconds>\d+(?:\.\d+)?)\s*",
    re.DOTALL,
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


@dataclass(frozen=True, slots=True)
class LoadQuery:
    """A query for the rate at which work must be done: what arrives, and the lag in some time."""

    rate_seconds: int
    backlog_seconds: float


def parse_load_query(query: str) -> LoadQuery | None:
    """Return the load that the query selects; None if it is not rate + lag / seconds."""
    found = _LOAD.fullmatch(query)
    if found is None or parse_lag_query(found["lag"]) is None:
        return None
    matchers, seconds = _equal_to(found["matchers"]), float(found["seconds"])
    is_one = matchers is not None and matchers.keys() == {"topic"} and seconds > 0
    return LoadQuery(int(found["range"]), seconds) if is_one else None


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
_KEEP_SEVERAL = frozenset({"limitk", "limit_ratio", "count_values", "topk", "bottomk"})
_ONE = frozenset({"vector", "absent", "absent_over_time", "scalar", "time", "pi"})
_OPERATORS = frozenset(["and", "or", "unless", "atan2", "bool", "offset", "inf", "nan"])
_MATCHING = frozenset({"on", "ignoring", "group_left", "group_right"})
_MOST_NESTED = 50
_CLOSING = {"(": ")", "{": "}", "[": "]"}


def gives_one_series(query: str) -> bool:
    """Return whether no more than one series can come, whatever the labels in Prometheus are.

    That is so if each metric stands inside an aggregation that keeps no label, or only labels to
    which the metric gives one value. KEDA takes no more than one series.
    """
    if query.count("(") > _MOST_NESTED:
        return True  # not looked at
    found = (
        match.group("text") or match["word"] or match["sign"] for match in _TOKEN.finditer(query)
    )
    return _is_one([word for word in found if word and word.strip()])


def _is_one(words: Sequence[str]) -> bool:
    at = 0
    while at < len(words):
        word, is_call = words[at].lower(), words[at + 1 : at + 2] == ["("]
        if word in _AGGREGATIONS:
            end = _aggregated(words, at)
            if end is None:
                return False
            at = end
        elif word in _MATCHING or (word in _ONE and is_call):
            at = _end(words, at + 1) if is_call else at
        elif word == "{" or (word[0].isalpha() and not is_call and word not in _OPERATORS):
            return False  # the series of a metric
        at += 1
    return True


def _aggregated(words: Sequence[str], at: int) -> int | None:
    """Return where an aggregation of one series ends; None: it gives several."""
    name, end, clause, kept = words[at].lower(), at, "", set[str]()
    inner: Sequence[str] = ()
    # The labels come before the argument, or behind it.
    while words[end + 1 : end + 2] and words[end + 1].lower() in {"(", "by", "without"}:
        if words[end + 1] == "(":
            if inner:
                break
            opens, end = end + 1, _end(words, end + 1)
            inner = words[opens + 1 : end]
        else:
            clause, opens = words[end + 1].lower(), end + 2
            end = _end(words, opens)
            kept = {word for word in words[opens + 1 : end] if word != ","}
    pinned = {inner[place - 1] for place, word in enumerate(inner) if word == "=" and place}
    takes_one = name not in _KEEP_SEVERAL or (name in {"topk", "bottomk"} and inner[0] == "1")
    is_one = clause != "without" and kept <= pinned and takes_one
    return end if is_one or _is_one(inner) else None


def _end(words: Sequence[str], at: int) -> int:
    """Return where a bracket is closed; the place itself if there is none."""
    closing, depth = _CLOSING.get(words[at]) if at < len(words) else None, 0
    for place in range(at, len(words)) if closing is not None else ():
        depth += (words[place] == words[at]) - (words[place] == closing)
        if depth == 0:
            return place
    return at
