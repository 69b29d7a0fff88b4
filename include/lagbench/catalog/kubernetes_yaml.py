"""Read Kubernetes objects from YAML or JSON as kubectl does, by YAML 1.1.

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
_TRUTHS = {"y": True, "yes": True, "true": True, "on": True}
_TRUTHS |= {"n": False, "no": False, "false": False, "off": False}
_BOOLEANS = {
    spelt: truth
    for word, truth in _TRUTHS.items()
    for spelt in (word, word.capitalize(), word.upper())
}
_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_IN_JSON = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class _KubernetesLoader(StrictLoader):
    """The scalars and keys of the YAML library in kubectl."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is not yaml.ScalarNode or not implicit[0]:
            return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        if value in _BOOLEANS:
            return f"{_TAG}bool"
        if value in ("", "~", "null", "Null", "NULL"):
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

    def scan_to_next_token(self) -> None:
        """Skip blanks and comments; a tab is a blank except where a line's indentation is."""
        super().scan_to_next_token()
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()


def _number(text: str) -> int | float | None:
    """Return a number as JSON has it; None: the text is none. ``09`` is the float 9."""
    plain = text.replace("_", "") if text[:1] != "_" else text
    if _INTEGER.fullmatch(plain):
        return int(plain, 8 if re.match(r"[+-]?0[0-7]", plain) else 0)
    if not _FLOAT.fullmatch(plain):
        return None
    found = float(plain)
    if not isfinite(found):
        return None
    return int(found) if found.is_integer() and abs(found) < 1e21 else found


def _construct(_: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    found = _BOOLEANS.get(node.value, _number(node.value))
    if found is None:
        problem = "neither a boolean nor a number that JSON has"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
    return found


for _name in ("bool", "int", "float"):
    _KubernetesLoader.add_constructor(f"{_TAG}{_name}", _construct)


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
