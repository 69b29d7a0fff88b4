"""Serve API discovery: groups, versions, kinds, and the minimal OpenAPI that kubectl needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from lagbench.core.keda.object.scaled_object_spec import DEFAULT_MAX_REPLICAS
from lagbench.localkube.kube_objects import (
    JsonObject,
    condition,
    from_rfc3339,
    is_terminating,
    name_of,
)
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


Column: TypeAlias = tuple[str, Callable[[JsonObject], object]]


def age_of(seconds: float) -> str:
    """Return an age as kubectl shows it: ``42s``, ``3m5s``, ``4h``, ``2d``."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    if whole < 600:
        return f"{whole // 60}m{whole % 60}s" if whole % 60 else f"{whole // 60}m"
    if whole < 3 * 3600:
        return f"{whole // 60}m"
    return f"{whole // 3600}h" if whole < 48 * 3600 else f"{whole // 86400}d"


def _age(obj: JsonObject) -> str:
    return age_of(time.time() - from_rfc3339(obj["metadata"]["creationTimestamp"]))


def _statuses(pod: JsonObject) -> Sequence[JsonObject]:
    return pod["status"].get("containerStatuses") or ()


def _pod_state(pod: JsonObject) -> str:
    state = str(pod["status"].get("phase", "Unknown"))
    for status in _statuses(pod):
        detail = status.get("state", {})
        state = (detail.get("waiting") or detail.get("terminated") or {}).get("reason", state)
    return "Terminating" if is_terminating(pod) else state


def _pod_ready(pod: JsonObject) -> str:
    ready = sum(1 for status in _statuses(pod) if status.get("ready"))
    return f"{ready}/{len(pod['spec']['containers'])}"


def _target(obj: JsonObject) -> str:
    target = obj["spec"].get("scaleTargetRef") or {}
    return f"{target.get('kind') or 'Deployment'}/{target.get('name')}"


def _involved(event: JsonObject) -> str:
    about = event.get("involvedObject") or {}
    return f"{about.get('kind', '')}/{about.get('name', '')}"


def _at(path: str, usual: object = "") -> Callable[[JsonObject], object]:
    """Return what reads a field, such as ``spec.type``."""
    *parents, field = path.split(".")

    def read(obj: JsonObject) -> object:
        for parent in parents:
            obj = obj.get(parent) or {}
        return obj.get(field, usual)

    return read


def _share(done: str, of: str) -> Callable[[JsonObject], object]:
    return lambda obj: f"{_at(done, 0)(obj)}/{_at(of)(obj)}"


def _truth(kind: str) -> Column:
    return kind, lambda obj: (condition(obj, kind) or {}).get("status", "Unknown")


_READY = _share("status.readyReplicas", "spec.replicas")

_COLUMNS: dict[str, tuple[Column, ...]] = {
    "Namespace": (("Status", _at("status.phase")),),
    "Pod": (
        ("Ready", _pod_ready),
        ("Status", _pod_state),
        ("Restarts", lambda pod: sum(s.get("restartCount", 0) for s in _statuses(pod))),
    ),
    "Service": (
        ("Type", _at("spec.type")),
        ("Cluster-IP", _at("spec.clusterIP")),
        ("Port(s)", lambda o: ",".join(str(p["port"]) for p in o["spec"].get("ports") or ())),
    ),
    "Event": (
        ("Type", _at("type")),
        ("Reason", _at("reason")),
        ("Object", _involved),
        ("Message", _at("message")),
    ),
    "StatefulSet": (("Ready", _READY),),
    "Deployment": (
        ("Ready", _READY),
        ("Up-to-date", _at("status.updatedReplicas", 0)),
        ("Available", _at("status.availableReplicas", 0)),
    ),
    "Job": (
        ("Completions", _share("status.succeeded", "spec.completions")),
        ("Failed", _at("status.failed", 0)),
    ),
    "HorizontalPodAutoscaler": (
        ("Reference", _target),
        ("MinPods", _at("spec.minReplicas")),
        ("MaxPods", _at("spec.maxReplicas")),
        ("Replicas", _at("status.currentReplicas", 0)),
        ("Desired", _at("status.desiredReplicas", 0)),
    ),
    "ScaledObject": (
        ("Target", _target),
        ("Min", _at("spec.minReplicaCount", 0)),
        ("Max", _at("spec.maxReplicaCount", DEFAULT_MAX_REPLICAS)),
        *map(_truth, ("Ready", "Active", "Paused")),
    ),
}


def table_of(resource: Resource, items: list[JsonObject], version: str) -> JsonObject:
    """Return objects of one kind as a Table."""
    columns = (("Name", name_of), *_COLUMNS.get(resource.kind, ()), ("Age", _age))
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": [
            {
                "name": title,
                "type": "string",
                "format": "name" if title == "Name" else "",
                "description": "",
                "priority": 0,
            }
            for title, _ in columns
        ],
        "rows": [
            {
                "cells": [str(value(obj)) for _, value in columns],
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": obj["metadata"],
                },
            }
            for obj in items
        ],
    }


def single_row_table(resource: Resource, obj: JsonObject) -> JsonObject:
    """Return one object as a Table."""
    return table_of(resource, [obj], str(obj["metadata"]["resourceVersion"]))
