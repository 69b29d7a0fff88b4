"""Server-side apply: merge a manager's fields into an object.

A field that the manager applied earlier and now leaves out is removed, unless another manager also
owns it. A field that another manager owns with another value is a conflict; ``force`` overrides it.
"""

from __future__ import annotations

from dataclasses import replace

from lagbench.localkube.api_error import ApiError
from lagbench.localkube.merging.field_sets import ITSELF, FieldSet, display, values_by_path
from lagbench.localkube.merging.list_keys import (
    Path,
    is_data_map,
    is_set,
    item_step,
    keys_of_list,
    value_step,
)
from lagbench.localkube.merging.managed_fields import Owner, owners_of, store_owners
from lagbench.localkube.objects import JsonObject, JsonValue, copy_of, name_of

_REMOVE = object()


def without_nulls(value: JsonValue) -> JsonValue:
    """Return ``value`` without fields set to null, which in an apply mean *not given*."""
    if isinstance(value, dict):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [without_nulls(child) for child in value]
    return value


def apply(
    live: JsonObject | None, wanted: JsonObject, writer: Owner, *, force: bool, is_custom: bool
) -> JsonObject:
    """Return ``live`` with the manager's ``wanted`` merged in; neither is changed."""
    wanted_values = values_by_path(wanted, is_custom=is_custom)
    applied = frozenset(wanted_values)
    if live is None:
        created = copy_of(wanted)
        store_owners(created, [replace(writer, fields=applied)])
        return created
    owners = owners_of(live)
    mine = next((owner for owner in owners if owner.is_same(writer)), None)
    others = [owner for owner in owners if not owner.is_same(writer)]
    live_values = values_by_path(live, is_custom=is_custom)
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
    merged: JsonObject = copy_of(_merge(live, wanted, (), is_custom=is_custom))
    if mine is not None:
        kept = applied.union(*(owner.fields for owner in others))
        for path in _removals(mine.fields - applied, kept, is_custom=is_custom):
            _remove(merged, path, (), is_custom=is_custom)
    at = mine.at if mine is not None and mine.fields == applied and merged == live else writer.at
    store_owners(merged, [*others, replace(writer, fields=applied, at=at)])
    return merged


def _conflict(live: JsonObject, conflicts: list[tuple[Owner, Path]]) -> ApiError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{owner.manager}"'
            + (f' with subresource "{owner.subresource}"' if owner.subresource else "")
            + f" using {owner.api_version}",
            "field": display(path),
        }
        for owner, path in conflicts
    ]
    listing = "; ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    return ApiError(
        409,
        "Conflict",
        f"Apply failed with {len(causes)} conflict{'s' if len(causes) > 1 else ''}: {listing}",
        causes=causes,
        name=name_of(live),
    )


def _merge(live: JsonValue, wanted: JsonValue, path: Path, *, is_custom: bool) -> JsonValue:
    if isinstance(live, dict) and isinstance(wanted, dict):
        merged = dict(live)
        for name, value in wanted.items():
            merged[name] = (
                _merge(live[name], value, (*path, f"f:{name}"), is_custom=is_custom)
                if name in live
                else value
            )
        return merged
    if isinstance(live, list) and isinstance(wanted, list):
        if is_set(path):
            return live + [member for member in wanted if member not in live]
        if keys := keys_of_list(path, is_custom=is_custom):
            return _merge_items(live, wanted, path, keys, is_custom=is_custom)
    return wanted


def _merge_items(
    live: list[JsonObject],
    wanted: list[JsonObject],
    path: Path,
    keys: tuple[str, ...],
    *,
    is_custom: bool,
) -> list[JsonObject]:
    """Merge two keyed lists: the wanted order first, then items that only the live object has."""
    rest = {item_step(item, keys): item for item in live}
    merged = []
    for item in wanted:
        step = item_step(item, keys)
        before = rest.pop(step, None)
        merged.append(
            item
            if before is None
            else _merge(before, item, (*path, str(step)), is_custom=is_custom)
        )
    return merged + list(rest.values())


def _removals(dropped: FieldSet, kept: FieldSet, *, is_custom: bool) -> list[Path]:
    """Return the paths to remove, outermost first: an item must still have its keys to be found.

    A structure is removed with its last owned field, including the server's defaults inside it. If
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
            if parent in kept_prefixes or is_data_map(parent, is_custom=is_custom):
                break
            if parent[-1].startswith("k:") and (*parent, ITSELF) not in dropped:
                break
            gone.add(parent)
    return sorted(gone, key=len)


def _remove(node: JsonValue, steps: Path, at: Path, *, is_custom: bool) -> object:
    """Remove the value at ``steps`` from ``node`` and return the rest."""
    if not steps:
        return _REMOVE
    step, rest = steps[0], steps[1:]
    here = (*at, step)
    if isinstance(node, dict) and step.startswith("f:") and step[2:] in node:
        name = step[2:]
        outcome = _remove(node[name], rest, here, is_custom=is_custom)
        if outcome is _REMOVE or outcome in ({}, []):
            del node[name]
        else:
            node[name] = outcome
    elif isinstance(node, list):
        keys = keys_of_list(at, is_custom=is_custom)
        kept = []
        for item in node:
            is_it = (
                step == value_step(item)
                if step.startswith("v:")
                else isinstance(item, dict) and bool(keys) and item_step(item, keys) == step
            )
            outcome = _remove(item, rest, here, is_custom=is_custom) if is_it else item
            if outcome is not _REMOVE:
                kept.append(outcome)
        return kept
    return node
