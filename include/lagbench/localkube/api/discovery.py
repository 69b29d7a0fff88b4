"""Serve API discovery: groups, versions, kinds, and the minimal OpenAPI that kubectl needs."""

from __future__ import annotations

from lagbench.localkube.objects import JsonObject
from lagbench.localkube.storage.resources import TABLE, Resource

# The version whose API the subset follows (spec/keda-hpa was read at 1.34).
_VERSION = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.0+localkube",
    "gitCommit": "",
    "gitTreeState": "clean",
    "platform": "linux/amd64",
}
_WRITE_VERBS = frozenset({"patch", "update", "create"})


def discovery_document(path: str) -> JsonObject | None:
    """Return the discovery document served at ``path``, or None if it is another path."""
    parts = [part for part in path.split("/") if part]
    if parts == ["version"]:
        return dict(_VERSION)
    if parts[:2] == ["openapi", "v3"]:
        return _openapi("/".join(parts[2:]))
    if parts[:1] == ["api"]:
        return _core_document(parts[1:])
    return _group_document(parts[1:]) if parts[:1] == ["apis"] else None


def _core_document(parts: list[str]) -> JsonObject | None:
    if not parts:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    return _resource_list("", parts[0]) if len(parts) == 1 else None


def _group_document(parts: list[str]) -> JsonObject | None:
    if not parts:
        groups = [_group(name) for name in _groups()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if len(parts) == 1 and parts[0] in _groups():
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[0])}
    return _resource_list(parts[0], parts[1]) if len(parts) == 2 else None


def _groups() -> list[str]:
    return sorted({row.group for row in TABLE if row.group})


def _group(name: str) -> JsonObject:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in sorted({row.version for row in TABLE if row.group == name})
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(group: str, version: str) -> JsonObject | None:
    rows = [row for row in TABLE if (row.group, row.version) == (group, version)]
    if not rows:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": rows[0].api_version,
        "resources": [entry for row in rows for entry in _entries(row)],
    }


def _entries(row: Resource) -> list[JsonObject]:
    main: JsonObject = {
        "name": row.plural,
        "singularName": row.kind.lower(),
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.verbs),
        "shortNames": list(row.short_names),
        "categories": ["all"] if row.in_all else [],
    }
    entries = [main]
    if row.has_status:
        entries.append(_subresource(row, "status", ["get", "patch", "update"]))
    if row.has_scale:
        scale = _subresource(row, "scale", ["get", "patch", "update"])
        entries.append({**scale, "group": "autoscaling", "version": "v1", "kind": "Scale"})
    if row.has_log:
        entries.append(_subresource(row, "log", ["get"]))
    if row.has_signal:
        entries.append(_subresource(row, "signal", ["create"]))
    return entries


def _subresource(row: Resource, name: str, verbs: list[str]) -> JsonObject:
    return {
        "name": f"{row.plural}/{name}",
        "singularName": "",
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": verbs,
    }


def _openapi(group_path: str) -> JsonObject | None:
    """Return the OpenAPI v3 index, or a group's document.

    The document has no schemas. It declares the parameter ``fieldValidation`` for writes, so
    kubectl leaves validation to the server instead of downloading schemas.
    ``storage/unknown_fields.py`` and ``storage/scaled_objects.py`` do the validation.
    """
    by_path: dict[str, list[Resource]] = {}
    for row in TABLE:
        by_path.setdefault(row.prefix.lstrip("/"), []).append(row)
    if not group_path:
        return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in by_path}}
    if group_path not in by_path:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "localkube", "version": _VERSION["gitVersion"]},
        "paths": dict(_openapi_path(row) for row in by_path[group_path]),
        "components": {"schemas": {}},
    }


def _openapi_path(row: Resource) -> tuple[str, JsonObject]:
    place = "/namespaces/{namespace}" if row.namespaced else ""
    operation: JsonObject = {
        "parameters": [
            {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}},
            {"name": "dryRun", "in": "query", "schema": {"type": "string"}},
        ],
        "x-kubernetes-group-version-kind": {
            "group": row.group,
            "version": row.version,
            "kind": row.kind,
        },
        "responses": {"200": {"description": "OK"}},
    }
    methods = {"patch": "patch", "update": "put"} if _WRITE_VERBS & set(row.verbs) else {}
    return f"{row.prefix}{place}/{row.plural}/{{name}}", dict.fromkeys(methods.values(), operation)
