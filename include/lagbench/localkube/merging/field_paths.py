"""Paths of the fields of an object, in the notation of ``metadata.managedFields``.

A step is "f:NAME" (field), "k:{JSON}" (list item by its keys) or "v:JSON" (member of a set). Only
the lists named here are merged item by item; all others are atomic: a write replaces the whole
list. Custom resources have only atomic lists, because KEDA's schemas name no list keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from lagbench.localkube.objects import JsonObject, JsonValue

Path: TypeAlias = tuple[str, ...]
FieldSet: TypeAlias = frozenset[Path]

ITSELF = "."
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_KEYS: dict[tuple[str, str], tuple[str, ...]] = {
    ("metadata", "ownerReferences"): ("uid",),
    ("status", "conditions"): ("type",),
    ("spec", "volumes"): ("name",),
    ("spec", "imagePullSecrets"): ("name",),
    ("spec", "ports"): ("port", "protocol"),
    ("status", "containerStatuses"): ("name",),
    **{("spec", kind): ("name",) for kind in _CONTAINERS},
    **{(kind, "env"): ("name",) for kind in _CONTAINERS},
    **{(kind, "ports"): ("containerPort", "protocol") for kind in _CONTAINERS},
    **{(kind, "volumeMounts"): ("mountPath",) for kind in _CONTAINERS},
}
_KEY_DEFAULTS = {"protocol": "TCP"}
# Maps whose keys are data: dropping one key never drops the map's siblings.
_DATA_MAPS = frozenset(
    (
        *("labels", "annotations", "data", "stringData", "binaryData"),
        *("matchLabels", "nodeSelector", "limits", "requests"),
    )
)
# Identity and server-set metadata have no owner.
_UNOWNED = frozenset(
    f"f:{name}"
    for name in (
        *("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"),
        *("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"),
        "generateName",
    )
)


def _place(path: Path) -> tuple[str, str]:
    """Return the names of the last two fields of ``path``."""
    fields = [step[2:] for step in path if step.startswith("f:")]
    return (fields[-2] if len(fields) > 1 else "", fields[-1] if fields else "")


def keys_of_list(path: Path, *, is_custom: bool) -> tuple[str, ...]:
    """Return the key fields of the list at ``path``, empty for an atomic list."""
    place = _place(path)
    return () if is_custom and place[0] != "metadata" else _KEYS.get(place, ())


def is_set(path: Path) -> bool:
    """Return whether the list at ``path`` is a set of plain values."""
    return _place(path) == ("metadata", "finalizers")


def is_data_map(path: Path, *, is_custom: bool) -> bool:
    """Return whether the object at ``path`` maps free keys to values."""
    place = _place(path)
    # A trigger's metadata is inside an atomic list, so the rule is the same for custom kinds.
    return place[1] in _DATA_MAPS and not (is_custom and place[0] == "spec")


def item_step(item: JsonValue, keys: Sequence[str]) -> str | None:
    """Return the step to a list item, None when it lacks a key field."""
    found = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in keys}
    if None in found.values():
        return None
    return "k:" + json.dumps(found, separators=(",", ":"), sort_keys=True)


def value_step(value: JsonValue) -> str:
    """Return the step to a member of a set."""
    return "v:" + json.dumps(value)


def values_by_path(obj: JsonObject, *, is_custom: bool) -> dict[Path, JsonValue]:
    """Return the leaves of an object: scalars, atomic lists, empty maps; keyed items as ``.``."""
    return {
        path: value
        for path, value in _leaves(obj, (), is_custom=is_custom)
        if path[0] not in {"f:apiVersion", "f:kind"}
        and not (path[0] == "f:metadata" and (len(path) == 1 or path[1] in _UNOWNED))
    }


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

    def paths(node: JsonObject, path: Path) -> Iterator[Path]:
        for step, child in node.items():
            if child:
                yield from paths(child, (*path, step))
            else:
                yield (*path, step)

    return frozenset(paths(document, ()))


def display(path: Path) -> str:
    """Return a path as messages show it: ``.spec.template.spec.containers[name="x"].image``."""
    return "".join(
        f".{step[2:]}" if step.startswith("f:") else f"[{step[2:]}]"
        for step in path
        if step != ITSELF
    )
