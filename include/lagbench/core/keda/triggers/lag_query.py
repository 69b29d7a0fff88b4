"""Parse PromQL that selects the lag of a consumer group, as far as the bench supports it.

Series are those of kafka_exporter, and the recorder's own, which have no label of a group.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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
