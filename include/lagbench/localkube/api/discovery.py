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
_SUBRESOURCE_VERBS = {
    "status": ("get", "patch", "update"),
    "scale": ("get", "patch", "update"),
    "log": ("get",),
    "signal": ("create",),
}


def discovery_document(path: str) -> JsonObject | None:
    """Return the discovery document served at ``path``, or None if it is another path."""
    found: JsonObject | None = None
    match [part for part in path.split("/") if part]:
        case ["version"]:
            found = dict(_VERSION)
        case ["openapi", "v3", *rest]:
            found = _openapi("/".join(rest))
        case ["api"]:
            found = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["api", version]:
            found = _resource_list(version)
        case ["apis"]:
            groups = [_group(name) for name in sorted(_groups())]
            found = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group] if group in _groups():
            found = {"kind": "APIGroup", "apiVersion": "v1", **_group(group)}
        case ["apis", group, version]:
            found = _resource_list(f"{group}/{version}")
    return found


def _groups() -> set[str]:
    return {row.group for row in TABLE if row.group}


def _group(name: str) -> JsonObject:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in sorted({row.version for row in TABLE if row.group == name})
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(api_version: str) -> JsonObject | None:
    rows = [row for row in TABLE if row.api_version == api_version]
    if not rows:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version,
        "resources": [entry for row in rows for entry in _entries(row)],
    }


def _entries(row: Resource) -> list[JsonObject]:
    common = {"namespaced": row.namespaced, "kind": row.kind}
    main: JsonObject = {
        **common,
        "name": row.plural,
        "singularName": row.kind.lower(),
        "verbs": list(row.verbs),
        "shortNames": list(row.short_names),
        "categories": ["all"] if row.in_all else [],
    }
    entries = [main]
    for name in row.subresources:
        if name in _SUBRESOURCE_VERBS:
            verbs = list(_SUBRESOURCE_VERBS[name])
            entry = {**common, "name": f"{row.plural}/{name}", "singularName": "", "verbs": verbs}
            scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
            entries.append({**entry, **(scale if name == "scale" else {})})
    return entries


def _openapi(group_path: str) -> JsonObject | None:
    """Return the OpenAPI v3 index, or a group's document.

    The document has no schemas. It declares the parameter ``fieldValidation`` for writes, so
    kubectl leaves validation to the server instead of downloading schemas.
    """
    by_path: dict[str, list[Resource]] = {}
    for row in TABLE:
        by_path.setdefault(row.prefix.lstrip("/"), []).append(row)
    if not group_path:
        return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in by_path}}
    if group_path not in by_path:
        return None
    paths = {}
    for row in by_path[group_path]:
        place = "/namespaces/{namespace}" if row.namespaced else ""
        of_kind = {"group": row.group, "version": row.version, "kind": row.kind}
        operation = {
            "parameters": [
                {"name": name, "in": "query", "schema": {"type": "string"}}
                for name in ("fieldValidation", "dryRun")
            ],
            "x-kubernetes-group-version-kind": of_kind,
            "responses": {"200": {"description": "OK"}},
        }
        methods = ("patch", "put") if "patch" in row.verbs else ()
        path = f"{row.prefix}{place}/{row.plural}/{{name}}"
        paths[path] = dict.fromkeys(methods, operation)
    return {
        "openapi": "3.0.0",
        "info": {"title": "localkube", "version": _VERSION["gitVersion"]},
        "paths": paths,
        "components": {"schemas": {}},
    }
