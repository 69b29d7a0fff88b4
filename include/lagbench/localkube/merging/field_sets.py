"""Sets of field paths: which fields an object has, and their form in ``metadata.managedFields``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from lagbench.localkube.merging.list_keys import Path, is_set, item_step, keys_of_list, value_step
from lagbench.localkube.objects import JsonObject, JsonValue

FieldSet: TypeAlias = frozenset[Path]

ITSELF = "."
# Identity and server-set metadata have no owner.
_UNOWNED_ROOTS = frozenset({"f:apiVersion", "f:kind"})
_UNOWNED_METADATA = frozenset(
    "f:" + name
    for name in (
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
        "generateName",
    )
)


def values_by_path(obj: JsonObject, *, is_custom: bool) -> dict[Path, JsonValue]:
    """Return the leaves of an object: scalars, atomic lists, empty maps; keyed items as ``.``."""
    found: dict[Path, JsonValue] = {}
    for path, value in _leaves(obj, (), is_custom=is_custom):
        if path[0] in _UNOWNED_ROOTS:
            continue
        if path[0] == "f:metadata" and (len(path) == 1 or path[1] in _UNOWNED_METADATA):
            continue
        found[path] = value
    return found


def _leaves(value: JsonValue, path: Path, *, is_custom: bool) -> Iterator[tuple[Path, JsonValue]]:
    if isinstance(value, dict) and value:
        for name, child in value.items():
            yield from _leaves(child, (*path, f"f:{name}"), is_custom=is_custom)
        return
    if isinstance(value, list) and value:
        if is_set(path):
            for member in value:
                yield (*path, value_step(member)), member
            return
        keys = keys_of_list(path, is_custom=is_custom)
        steps = [item_step(item, keys) if isinstance(item, dict) else None for item in value]
        if keys and None not in steps:
            for step, item in zip(steps, value, strict=True):
                inside = (*path, str(step))
                yield (*inside, ITSELF), None
                yield from _leaves(item, inside, is_custom=is_custom)
            return
    if path:
        yield path, value


def to_fields_v1(paths: Iterable[Path]) -> JsonObject:
    """Return a field set as the nested ``fieldsV1`` document."""
    root: JsonObject = {}
    for path in sorted(paths):
        node = root
        for step in path:
            node = node.setdefault(step, {})
    return root


def from_fields_v1(document: JsonObject) -> FieldSet:
    """Return the field set of a ``fieldsV1`` document."""
    return frozenset(_paths(document, ()))


def _paths(node: JsonObject, path: Path) -> Iterator[Path]:
    for step, child in node.items():
        if child:
            yield from _paths(child, (*path, step))
        else:
            yield (*path, step)


def display(path: Path) -> str:
    """Return a path as messages show it: ``.spec.template.spec.containers[name="x"].image``."""
    text = ""
    for step in path:
        if step.startswith("f:"):
            text += f".{step[2:]}"
        elif step != ITSELF:
            text += f"[{step[2:]}]"
    return text
