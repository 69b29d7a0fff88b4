"""Define which lists of an object are merged item by item, and the key fields of their items.

All other lists are atomic: a write replaces the whole list. Custom resources have only atomic
lists, because KEDA's schemas name no list keys.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeAlias

from lagbench.localkube.objects import JsonObject, JsonValue

# A step is "f:NAME" (field), "k:{JSON}" (list item by its keys) or "v:JSON" (member of a set), the
# notation of metadata.managedFields.
Path: TypeAlias = tuple[str, ...]

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
_SETS = frozenset({("metadata", "finalizers")})
_KEY_DEFAULTS = {"protocol": "TCP"}
# Maps whose keys are data: dropping one key never drops the map's siblings.
_DATA_MAPS = frozenset(
    {
        "labels",
        "annotations",
        "data",
        "stringData",
        "binaryData",
        "matchLabels",
        "nodeSelector",
        "limits",
        "requests",
    }
)


def _place(path: Path) -> tuple[str, str]:
    """Return the names of the last two fields of ``path``."""
    fields = [step[2:] for step in path if step.startswith("f:")]
    return (fields[-2] if len(fields) > 1 else "", fields[-1] if fields else "")


def keys_of_list(path: Path, *, is_custom: bool) -> tuple[str, ...]:
    """Return the key fields of the list at ``path``, empty for an atomic list."""
    place = _place(path)
    if is_custom and place[0] != "metadata":
        return ()
    return _KEYS.get(place, ())


def is_set(path: Path) -> bool:
    """Return whether the list at ``path`` is a set of plain values."""
    return _place(path) in _SETS


def is_data_map(path: Path, *, is_custom: bool) -> bool:
    """Return whether the object at ``path`` maps free keys to values."""
    place = _place(path)
    # A trigger's metadata is inside an atomic list, so the rule is the same for custom kinds.
    return place[1] in _DATA_MAPS and not (is_custom and place[0] == "spec")


def item_step(item: JsonObject, keys: Sequence[str]) -> str | None:
    """Return the step to a list item, None when it lacks a key field."""
    found = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in keys}
    if None in found.values():
        return None
    return "k:" + json.dumps(found, separators=(",", ":"), sort_keys=True)


def value_step(value: JsonValue) -> str:
    """Return the step to a member of a set."""
    return "v:" + json.dumps(value)
