"""Label and field selectors, as strings of a request and as objects of a spec."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from lagbench.localkube.kube_objects import JsonObject, bad_request, labels_of

Matcher: TypeAlias = Callable[[JsonObject], bool]
LabelMatcher: TypeAlias = Callable[[Mapping[str, str]], bool]

_SET_TERM = re.compile(r"([\w./-]+)\s+(in|notin)\s+\(([^)]*)\)")
_EQUAL_TERM = re.compile(r"([\w./-]+)\s*(!=|==|=)\s*([\w./-]*)")
_EXISTS_TERM = re.compile(r"(!?)\s*([\w./-]+)")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")
# The API server allows fewer fields per kind; these are the fields that clients use.
_OF_EVENTS = ("name", "namespace", "kind", "uid", "apiVersion", "fieldPath", "resourceVersion")
_FIELDS = frozenset(
    (
        *("metadata.name", "metadata.namespace", "status.phase", "spec.nodeName"),
        *("type", "reason"),
        *(f"involvedObject.{name}" for name in _OF_EVENTS),
    )
)


def label_matcher(selector: str) -> LabelMatcher:
    """Return a test on labels for a selector such as ``app=x,tier in (a,b),!old``."""
    terms = [
        _label_term(t.strip()) for t in _COMMA_OUTSIDE_PARENTHESES.split(selector) if t.strip()
    ]
    return lambda labels: all(term(labels) for term in terms)


def _label_term(term: str) -> LabelMatcher:
    if found := _SET_TERM.fullmatch(term):
        key, is_in = found[1], found[2] == "in"
        values = {value.strip() for value in found[3].split(",")}
        return lambda labels: (labels.get(key) in values) is is_in
    if found := _EQUAL_TERM.fullmatch(term):
        key, is_equal, value = found[1], found[2] != "!=", found[3]
        return lambda labels: (labels.get(key) == value) is is_equal
    if found := _EXISTS_TERM.fullmatch(term):
        key, negated = found[2], bool(found[1])
        return lambda labels: (key in labels) is not negated
    raise bad_request(f"unable to parse label selector requirement {term!r}")


def field_matcher(selector: str) -> Matcher:
    """Return a test on objects for a selector such as ``metadata.name=x,status.phase!=Failed``."""
    terms: list[tuple[str, bool, str]] = []
    for text in filter(None, (piece.strip() for piece in selector.split(","))):
        found = _EQUAL_TERM.fullmatch(text)
        if found is None:
            raise bad_request(f"unable to parse field selector requirement {text!r}")
        if found[1] not in _FIELDS:
            raise bad_request(f"field label not supported: {found[1]}")
        terms.append((found[1], found[2] != "!=", found[3]))
    return lambda obj: all((_field(obj, path) == value) is equal for path, equal, value in terms)


def _field(obj: JsonObject, path: str) -> str:
    value: object = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return "" if value is None else str(value)


def request_matcher(label_selector: str, field_selector: str) -> Matcher:
    """Return the test for a request's two selectors; each of them may be empty."""
    by_label = label_matcher(label_selector)
    by_field = field_matcher(field_selector)
    return lambda obj: by_label(labels_of(obj)) and by_field(obj)
