"""The three patch formats besides apply: JSON merge patch, JSON patch, strategic merge patch."""

from __future__ import annotations

from copy import deepcopy

from localkube.kube_objects import ApiError, JsonObject, JsonValue, bad_request
from localkube.merging.apply import FieldRules, Path

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def patched(obj: JsonObject, patch: JsonValue, content_type: str, *, is_custom: bool) -> JsonObject:
    """Return a changed copy of ``obj``."""
    # A kind without a compiled-in schema has no strategic merge patch.
    allowed = (JSON, MERGE) if is_custom else (JSON, MERGE, STRATEGIC)
    if content_type not in allowed:
        raise ApiError(
            415,
            "UnsupportedMediaType",
            f"the body of the request was in an unknown format ({content_type}); "
            f"accepted media types: {', '.join((APPLY, *allowed))}",
        )
    if content_type == JSON:
        return json_patch(obj, patch)
    if not isinstance(patch, dict):
        raise bad_request("a merge patch must be a JSON object")
    merge = merge_patch if content_type == MERGE else strategic_merge_patch
    result: JsonObject = merge(obj, patch)
    return result


def merge_patch(target: JsonValue, patch: JsonValue) -> JsonValue:
    """Return ``target`` with an RFC 7386 merge patch applied: null removes, lists are replaced."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    merged = deepcopy(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def json_patch(target: JsonObject, operations: JsonValue) -> JsonObject:
    """Return ``target`` with an RFC 6902 list of operations applied."""
    if not isinstance(operations, list):
        raise bad_request("a JSON patch must be a list of operations")
    document: JsonValue = deepcopy(target)
    for operation in operations:
        try:
            document = _one_operation(document, operation)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
            raise ApiError(
                422, "Invalid", f"the server rejected the JSON patch {operation!r}: {error!r}"
            ) from error
    if not isinstance(document, dict):
        raise bad_request("the result of the JSON patch is not an object")
    return document


def _one_operation(document: JsonValue, operation: JsonObject) -> JsonValue:
    kind, path = operation["op"], _pointer(operation["path"])
    if kind == "test":
        if _at(document, path) != operation["value"]:
            raise ValueError("test failed")
        return document
    if kind in ("move", "copy"):
        source = _pointer(operation["from"])
        value = deepcopy(_at(document, source))
        if kind == "move":
            _take_out(document, source)
        return _put_in(document, path, value)
    if kind == "remove":
        _take_out(document, path)
        return document
    if kind == "replace":
        _at(document, path)
        if path:
            _take_out(document, path)
        return _put_in(document, path, operation["value"])
    if kind == "add":
        return _put_in(document, path, operation["value"])
    raise ValueError(f"unknown operation {kind!r}")


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError(f"not a JSON pointer: {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _at(document: JsonValue, path: list[str]) -> JsonValue:
    for part in path:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def _take_out(document: JsonValue, path: list[str]) -> None:
    parent = _at(document, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]


def _put_in(document: JsonValue, path: list[str], value: JsonValue) -> JsonValue:
    if not path:
        return deepcopy(value)
    parent = _at(document, path[:-1])
    if isinstance(parent, list):
        index = len(parent) if path[-1] == "-" else int(path[-1])
        if not 0 <= index <= len(parent):
            raise IndexError(f"index {index} of a list of {len(parent)}")
        parent.insert(index, deepcopy(value))
    else:
        parent[path[-1]] = deepcopy(value)
    return document


def strategic_merge_patch(target: JsonValue, patch: JsonValue, path: Path = ()) -> JsonValue:
    """Return ``target`` with a strategic merge patch applied: keyed lists are merged by item."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    if patch.get("$patch") == "replace":
        return {name: deepcopy(value) for name, value in patch.items() if name != "$patch"}
    if patch.get("$patch") == "delete":
        return {}
    merged = deepcopy(target) if isinstance(target, dict) else {}
    if "$retainKeys" in patch:
        merged = {name: value for name, value in merged.items() if name in patch["$retainKeys"]}
    for name, value in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            field = name.split("/", 1)[1]
            merged[field] = [item for item in merged.get(field, []) if item not in value]
        elif name.startswith("$"):
            continue  # $patch and $retainKeys are handled above; $setElementOrder is only an order
        elif value is None:
            merged.pop(name, None)
        elif isinstance(value, list):
            merged[name] = _patch_list(merged.get(name), value, (*path, f"f:{name}"))
        else:
            merged[name] = strategic_merge_patch(merged.get(name), value, (*path, f"f:{name}"))
    return merged


def _patch_list(target: JsonValue, patch: list[JsonValue], path: Path) -> list[JsonValue]:
    # A strategic merge identifies items by one field: the first of an apply's keys.
    keys = FieldRules(is_custom=False).keys_of_list(path)[:1]
    if not keys or not isinstance(target, list) or {"$patch": "replace"} in patch:
        return [deepcopy(item) for item in patch if item != {"$patch": "replace"}]
    key = keys[0]
    items = list(target)
    for change in patch:
        place = next((i for i, item in enumerate(items) if item.get(key) == change.get(key)), None)
        if change.get("$patch") == "delete":
            if place is not None:
                del items[place]
        elif place is None:
            items.append(strategic_merge_patch({}, change, path))
        else:
            items[place] = strategic_merge_patch(items[place], change, path)
    return items
