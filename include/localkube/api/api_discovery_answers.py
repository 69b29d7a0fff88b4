"""Serve API discovery: groups, versions, kinds, and the minimal OpenAPI that kubectl needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from localkube.kinds import Column, Resource
from localkube.kube_objects import JsonObject, KubeObject, field_at, from_rfc3339, scale_target

KUBERNETES = "1.34"
"""The version whose API the subset follows (spec/keda-hpa was read at it)."""

_SUBRESOURCE_VERBS = {
    "status": ("get", "patch", "update"),
    "scale": ("get", "patch", "update"),
    "log": ("get",),
    "signal": ("create",),
}


def discovery_document(
    path: str, kinds: Sequence[Resource], kubernetes: str = KUBERNETES
) -> JsonObject | None:
    """Return the discovery document served at ``path``, or None if it is another path."""
    groups = {row.group for row in kinds if row.group}
    found: JsonObject | None = None
    match [part for part in path.split("/") if part]:
        case ["version"]:
            found = _version(kubernetes)
        case ["openapi", "v3", *rest]:
            found = _openapi("/".join(rest), kinds)
        case ["api"]:
            found = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            listed = [_group(name, kinds) for name in sorted(groups)]
            found = {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ["apis", group] if group in groups:
            found = {"kind": "APIGroup", "apiVersion": "v1", **_group(group, kinds)}
        case ["api", *parts] | ["apis", *parts]:
            version = "/".join(parts)
            rows = [row for row in kinds if row.api_version == version]
            resources = [entry for row in rows for entry in _entries(row)]
            answer = {"apiVersion": "v1", "groupVersion": version, "resources": resources}
            found = {"kind": "APIResourceList", **answer} if rows else None
    return found


def _version(kubernetes: str) -> JsonObject:
    major, _, minor = kubernetes.partition(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{kubernetes}.0+localkube",
        "gitCommit": "",
        "gitTreeState": "clean",
        "platform": "linux/amd64",
    }


def _group(name: str, kinds: Sequence[Resource]) -> JsonObject:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in sorted({row.version for row in kinds if row.group == name})
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


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


def _openapi(group_path: str, kinds: Sequence[Resource]) -> JsonObject | None:
    """Return the OpenAPI v3 index, or a group's document.

    The document has no schemas. It declares the parameter ``fieldValidation`` for writes, so
    kubectl leaves validation to the server instead of downloading schemas.
    """
    by_path: dict[str, list[Resource]] = {}
    for row in kinds:
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
        "info": {"title": "localkube", "version": f"v{KUBERNETES}"},
        "paths": paths,
        "components": {"schemas": {}},
    }


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


def _age(obj: KubeObject) -> str:
    return age_of(time.time() - from_rfc3339(obj.metadata["creationTimestamp"]))


def _pod_state(pod: KubeObject) -> str:
    state = str(pod.status.get("phase", "Unknown"))
    for status in pod.container_statuses:
        detail = status.get("state", {})
        state = (detail.get("waiting") or detail.get("terminated") or {}).get("reason", state)
    return "Terminating" if pod.is_terminating else state


def _pod_ready(pod: KubeObject) -> str:
    ready = sum(1 for status in pod.container_statuses if status.get("ready"))
    return f"{ready}/{len(pod.spec['containers'])}"


def _involved(event: KubeObject) -> str:
    about = event.get("involvedObject") or {}
    return f"{about.get('kind', '')}/{about.get('name', '')}"


def _share(done: str, of: str) -> Callable[[KubeObject], object]:
    return lambda obj: f"{field_at(done, 0)(obj)}/{field_at(of)(obj)}"


_READY = ("Ready", _share("status.readyReplicas", "spec.replicas"))
_COLUMNS: dict[str, tuple[Column, ...]] = {
    "Namespace": (("Status", field_at("status.phase")),),
    "Pod": (
        ("Ready", _pod_ready),
        ("Status", _pod_state),
        ("Restarts", lambda pod: sum(s.get("restartCount", 0) for s in pod.container_statuses)),
    ),
    "Service": (
        ("Type", field_at("spec.type")),
        ("Cluster-IP", field_at("spec.clusterIP")),
        ("Port(s)", lambda o: ",".join(str(p["port"]) for p in o.spec.get("ports") or ())),
    ),
    "Event": (
        ("Type", field_at("type")),
        ("Reason", field_at("reason")),
        ("Object", _involved),
        ("Message", field_at("message")),
    ),
    "StatefulSet": (_READY,),
    "Deployment": (
        _READY,
        ("Up-to-date", field_at("status.updatedReplicas", 0)),
        ("Available", field_at("status.availableReplicas", 0)),
    ),
    "Job": (
        ("Completions", _share("status.succeeded", "spec.completions")),
        ("Failed", field_at("status.failed", 0)),
    ),
    "HorizontalPodAutoscaler": (
        ("Reference", scale_target),
        ("MinPods", field_at("spec.minReplicas")),
        ("MaxPods", field_at("spec.maxReplicas")),
        ("Replicas", field_at("status.currentReplicas", 0)),
        ("Desired", field_at("status.desiredReplicas", 0)),
    ),
}


def table_of(resource: Resource, items: Sequence[KubeObject], version: str) -> JsonObject:
    """Return objects of one kind as a Table."""
    more = resource.columns or _COLUMNS.get(resource.kind, ())
    columns: tuple[Column, ...] = (("Name", lambda obj: obj.name), *more, ("Age", _age))
    plain = {"type": "string", "format": "", "description": "", "priority": 0}
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": [
            {**plain, "name": title, **({"format": "name"} if title == "Name" else {})}
            for title, _ in columns
        ],
        "rows": [
            {
                "cells": [str(value(obj)) for _, value in columns],
                "object": {**partial, "metadata": obj.metadata},
            }
            for obj in items
        ],
    }


def single_row_table(resource: Resource, obj: KubeObject) -> JsonObject:
    """Return one object as a Table."""
    return table_of(resource, [obj], obj.metadata["resourceVersion"])
