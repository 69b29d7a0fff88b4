"""Server-side apply and the ownership of fields, as ``metadata.managedFields`` has it.

A field that a manager applied earlier and now leaves out is removed, unless another manager also
owns it. A field that another manager owns with another value is a conflict; ``force`` overrides it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from localkube.kube_objects import ApiError, JsonObject, JsonValue, KubeObject

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


def is_set(path: Path) -> bool:
    """Return whether the list at ``path`` is a set of plain values."""
    return _place(path) == ("metadata", "finalizers")


def item_step(item: JsonValue, keys: Sequence[str]) -> str | None:
    """Return the step to a list item, None when it lacks a key field."""
    found = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in keys}
    if None in found.values():
        return None
    return "k:" + json.dumps(found, separators=(",", ":"), sort_keys=True)


def value_step(value: JsonValue) -> str:
    """Return the step to a member of a set."""
    return "v:" + json.dumps(value)


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


_REMOVE = object()


@dataclass(frozen=True, slots=True)
class Owner:
    """One entry: a manager by name, its operation (Apply or Update) and the subresource."""

    manager: str
    operation: str
    subresource: str
    fields: FieldSet
    api_version: str
    at: str

    def is_same(self, other: Owner) -> bool:
        """Return whether both entries have the same manager, operation and subresource."""
        parts = ("manager", "operation", "subresource")
        return all(getattr(self, part) == getattr(other, part) for part in parts)


def owners_of(obj: KubeObject, writer: Owner) -> tuple[Owner | None, list[Owner]]:
    """Return the writer's entry of an object, and those of all others."""
    owners = [
        Owner(
            manager=entry.get("manager", ""),
            operation=entry.get("operation", "Update"),
            subresource=entry.get("subresource", ""),
            fields=from_fields_v1(entry.get("fieldsV1") or {}),
            api_version=entry.get("apiVersion", ""),
            at=entry.get("time", ""),
        )
        for entry in obj.metadata.get("managedFields") or ()
    ]
    mine = next((owner for owner in owners if owner.is_same(writer)), None)
    return mine, [owner for owner in owners if not owner.is_same(writer)]


def _store_owners(obj: KubeObject, owners: list[Owner]) -> None:
    """Write the entries into ``obj`` in place; an entry without fields is dropped."""
    entries = [
        {
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": owner.api_version,
            "time": owner.at,
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(owner.fields),
            **({"subresource": owner.subresource} if owner.subresource else {}),
        }
        for owner in owners
        if owner.fields
    ]
    obj.metadata["managedFields"] = entries
    if not entries:
        del obj.metadata["managedFields"]


def without_nulls(value: JsonValue) -> JsonValue:
    """Return ``value`` without fields set to null, which in an apply mean *not given*."""
    if isinstance(value, dict):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [without_nulls(child) for child in value]
    return value


def _conflict(live: KubeObject, conflicts: list[tuple[Owner, Path]]) -> ApiError:
    causes = []
    for owner, path in conflicts:
        where = f' with subresource "{owner.subresource}"' if owner.subresource else ""
        text = f'conflict with "{owner.manager}"{where} using {owner.api_version}'
        causes.append({"reason": "FieldManagerConflict", "message": text, "field": display(path)})
    listing = "; ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    text = f"Apply failed with {len(causes)} conflict{'s' if len(causes) > 1 else ''}: {listing}"
    return ApiError(409, "Conflict", text, causes=causes, name=live.name)


@dataclass(frozen=True, slots=True)
class FieldRules:
    """How the writes of one kind are merged, and who owns its fields."""

    is_custom: bool
    """Of a custom kind lists are atomic, besides those in the metadata."""

    def keys_of_list(self, path: Path) -> tuple[str, ...]:
        """Return the key fields of the list at ``path``, empty for an atomic list."""
        place = _place(path)
        return () if self.is_custom and place[0] != "metadata" else _KEYS.get(place, ())

    def is_data_map(self, path: Path) -> bool:
        """Return whether the object at ``path`` maps free keys to values."""
        place = _place(path)
        # A trigger's metadata is inside an atomic list, so the rule is the same for custom kinds.
        return place[1] in _DATA_MAPS and not (self.is_custom and place[0] == "spec")

    def values_by_path(self, obj: KubeObject) -> dict[Path, JsonValue]:
        """Return an object's leaves: scalars, atomic lists, empty maps; keyed items as ``.``."""
        return {
            path: value
            for path, value in self._leaves(obj, ())
            if path[0] not in {"f:apiVersion", "f:kind"}
            and not (path[0] == "f:metadata" and (len(path) == 1 or path[1] in _UNOWNED))
        }

    def _leaves(self, value: JsonValue, path: Path) -> Iterator[tuple[Path, JsonValue]]:
        if isinstance(value, dict) and value:
            for name, child in value.items():
                yield from self._leaves(child, (*path, f"f:{name}"))
            return
        if isinstance(value, list) and value:
            if is_set(path):
                for member in value:
                    yield (*path, value_step(member)), member
                return
            keys = self.keys_of_list(path)
            steps = [item_step(item, keys) if isinstance(item, dict) else None for item in value]
            if keys and None not in steps:
                for step, item in zip(steps, value, strict=True):
                    inside = (*path, str(step))
                    yield (*inside, ITSELF), None
                    yield from self._leaves(item, inside)
                return
        if path:
            yield path, value

    def record_update(self, before: KubeObject | None, after: KubeObject, writer: Owner) -> None:
        """Transfer the fields that a plain write changed from all other managers to ``writer``.

        Unlike an apply, a plain write never conflicts: it takes over the ownership.
        """
        old = self.values_by_path(before) if before else {}
        new = self.values_by_path(after)
        changed = frozenset(p for p, value in new.items() if p not in old or old[p] != value)
        mine, others = owners_of(before, writer) if before else (None, [])
        mine = mine or writer
        present = frozenset(new)
        kept = [replace(owner, fields=(owner.fields & present) - changed) for owner in others]
        fields = (mine.fields & present) | changed
        at = writer.at if changed or fields != mine.fields else mine.at
        _store_owners(after, [*kept, replace(writer, fields=fields, at=at)])

    def apply(
        self, live: KubeObject | None, wanted: KubeObject, writer: Owner, *, force: bool
    ) -> KubeObject:
        """Return ``live`` with the manager's ``wanted`` merged in; neither is changed."""
        wanted_values = self.values_by_path(wanted)
        applied = frozenset(wanted_values)
        if live is None:
            created = wanted.copy()
            _store_owners(created, [replace(writer, fields=applied)])
            return created
        mine, others = owners_of(live, writer)
        live_values = self.values_by_path(live)
        conflicts = [
            (owner, path)
            for owner in others
            for path in sorted(owner.fields & applied)
            if path in live_values and live_values[path] != wanted_values[path]
        ]
        if conflicts and not force:
            raise _conflict(live, conflicts)
        lost = frozenset(path for _, path in conflicts)
        others = [replace(owner, fields=owner.fields - lost) for owner in others]
        merged = KubeObject(self._merge(live, wanted, ())).copy()
        if mine is not None:
            kept = applied.union(*(owner.fields for owner in others))
            for path in self._removals(mine.fields - applied, kept):
                self._remove(merged, path, ())
        is_repeated = mine is not None and mine.fields == applied and merged == live
        at = mine.at if mine is not None and is_repeated else writer.at
        _store_owners(merged, [*others, replace(writer, fields=applied, at=at)])
        return merged

    def _merge(self, live: JsonValue, wanted: JsonValue, path: Path) -> JsonValue:
        if isinstance(live, dict) and isinstance(wanted, dict):
            return live | {
                name: self._merge(live[name], value, (*path, f"f:{name}"))
                if name in live
                else value
                for name, value in wanted.items()
            }
        if isinstance(live, list) and isinstance(wanted, list):
            if is_set(path):
                return live + [member for member in wanted if member not in live]
            if keys := self.keys_of_list(path):
                # The wanted order first, then items that only the live object has.
                rest = {item_step(item, keys): item for item in live}
                merged = []
                for item in wanted:
                    step = item_step(item, keys)
                    here = (*path, str(step))
                    before = rest.pop(step, None)
                    new = item if before is None else self._merge(before, item, here)
                    merged.append(new)
                return merged + list(rest.values())
        return wanted

    def _removals(self, dropped: FieldSet, kept: FieldSet) -> list[Path]:
        """Return the paths to remove, outermost first: an item is found by the keys in it.

        A structure is removed with its last owned field, including the server's defaults in it. If
        ``behavior`` is left out, it is then absent, not a block of defaults.
        """
        kept_prefixes = {path[:length] for path in kept for length in range(len(path) + 1)}
        gone: set[Path] = set()
        for path in dropped:
            target = path[:-1] if path[-1] == ITSELF else path
            if target in kept_prefixes:
                continue
            gone.add(target)
            for length in range(len(target) - 1, 1, -1):
                parent = target[:length]
                if parent in kept_prefixes or self.is_data_map(parent):
                    break
                if parent[-1].startswith("k:") and (*parent, ITSELF) not in dropped:
                    break
                gone.add(parent)
        return sorted(gone, key=len)

    def _remove(self, node: JsonValue, steps: Path, at: Path) -> object:
        """Remove the value at ``steps`` from ``node`` and return the rest."""
        if not steps:
            return _REMOVE
        step, rest = steps[0], steps[1:]
        here = (*at, step)
        if isinstance(node, dict) and step.startswith("f:") and step[2:] in node:
            name = step[2:]
            node[name] = self._remove(node[name], rest, here)
            if node[name] is _REMOVE or node[name] in ({}, []):
                del node[name]
        elif isinstance(node, list):
            keys = self.keys_of_list(at)

            def is_it(item: JsonValue) -> bool:
                if step.startswith("v:"):
                    return step == value_step(item)
                return isinstance(item, dict) and bool(keys) and item_step(item, keys) == step

            left = [self._remove(item, rest, here) if is_it(item) else item for item in node]
            return [item for item in left if item is not _REMOVE]
        return node
