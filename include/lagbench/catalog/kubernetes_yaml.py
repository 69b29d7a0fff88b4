"""Read Kubernetes objects from YAML or JSON as kubectl does: YAML 1.1 by Go's rules.

``no``, ``off`` and ``y`` are booleans, ``010`` is 8, ``12.0`` is 12, and ``10:30`` is a text. A
scenario is not a Kubernetes object: ``strict_yaml`` reads it.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

import yaml

from lagbench.catalog.strict_yaml import StrictLoader, parse_documents

_TAG = "tag:yaml.org,2002:"
_BOOLEANS = {
    spelt: truth
    for truth, words in ((True, "y yes true on"), (False, "n no false off"))
    for word in words.split()
    for spelt in (word, word.capitalize(), word.upper())
}
_NULLS = ("", "~", "null", "Null", "NULL")
_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_IN_JSON = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_FIRST_EXPONENT = 1e21  # from here on Go writes a float with an exponent
_NO_TEXT = re.compile("[\ud800-\udfff]")
_LOWEST, _HIGHEST = -(2**63), 2**64 - 1


class _KubernetesLoader(StrictLoader):
    """The scalars, keys and blanks of the YAML library in kubectl."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is yaml.ScalarNode and _NO_TEXT.search(value):
            raise yaml.YAMLError("an escape outside of Unicode")
        if kind is not yaml.ScalarNode or not implicit[0]:
            return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        if value in _BOOLEANS:
            return f"{_TAG}bool"
        if value in _NULLS:
            return f"{_TAG}null"
        if value == "<<":
            return f"{_TAG}merge"
        is_number = _number(value) is not None or _NOT_IN_JSON.fullmatch(value)
        return f"{_TAG}float" if is_number else self.DEFAULT_SCALAR_TAG

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag in {f"{_TAG}bool", f"{_TAG}float"}:
                truth = _BOOLEANS.get(key.value)
                key.value = str(_number(key.value)) if truth is None else str(truth).lower()
                key.tag = self.DEFAULT_SCALAR_TAG
        super().flatten_mapping(node)

    def process_directives(self) -> Any:
        found = super().process_directives()  # type: ignore[no-untyped-call]
        if self.yaml_version is not None:
            problem = "kubectl reads no file with a %YAML directive"
            raise yaml.parser.ParserError(None, None, problem, self.get_mark())
        return found

    def scan_to_next_token(self) -> None:
        """Skip blanks and comments; a tab is a blank except where a line's indentation is."""
        super().scan_to_next_token()
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()


def _number(text: str) -> int | float | None:
    """Return a number as the JSON has it; None: the text is none. ``09`` is the float 9."""
    plain = text.replace("_", "") if text[:1] != "_" else text
    if _INTEGER.fullmatch(plain):
        is_old_octal = re.match(r"[+-]?0[0-7]", plain)
        number = int(plain, 8 if is_old_octal else 0)
        if _LOWEST <= number <= _HIGHEST:
            return number
    if not _FLOAT.fullmatch(plain):
        return None
    found = float(plain)
    if not isfinite(found):
        return None
    return int(found) if found.is_integer() and abs(found) < _FIRST_EXPONENT else found


def _construct_boolean(_: yaml.SafeLoader, node: yaml.ScalarNode) -> bool:
    if node.value not in _BOOLEANS:
        raise yaml.constructor.ConstructorError(None, None, "no boolean", node.start_mark)
    return _BOOLEANS[node.value]


def _construct_number(_: yaml.SafeLoader, node: yaml.ScalarNode) -> int | float:
    found = _number(node.value)
    if found is None:
        problem = "not a number that JSON has"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
    return found


_KubernetesLoader.add_constructor(f"{_TAG}bool", _construct_boolean)
for _name in ("int", "float"):
    _KubernetesLoader.add_constructor(f"{_TAG}{_name}", _construct_number)


def parse_objects(text: str, *, where: str, is_private: bool = False) -> list[Any]:
    """Return the documents as kubectl would send them, the items of a List one by one.

    :param is_private: a message shows no line of it.
    """
    found = parse_documents(
        text.removeprefix("\ufeff"), where=where, loader=_KubernetesLoader, is_private=is_private
    )
    return [item for document in found for item in _items(document)]


def _items(document: Any) -> list[Any]:
    """Return what a list of objects holds; an item without a kind has the list's."""
    if not isinstance(document, dict) or not str(document.get("kind")).endswith("List"):
        return [document]
    items, kind = document.get("items"), document["kind"].removesuffix("List")
    if not isinstance(items, list | None):
        return [document]
    named = {"apiVersion": document.get("apiVersion"), "kind": kind} if kind else {}
    whole = [{**named, **item} if isinstance(item, dict) else item for item in items or []]
    return [inner for item in whole for inner in _items(item)]
