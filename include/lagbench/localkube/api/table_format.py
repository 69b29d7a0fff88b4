"""Convert objects to the Table format that ``kubectl get`` requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from lagbench.core.keda.object import DEFAULT_MAX_REPLICAS
from lagbench.localkube.objects import JsonObject, condition, from_rfc3339, is_terminating, name_of
from lagbench.localkube.storage.resources import (
    AUTOSCALER,
    DEPLOYMENT,
    EVENT,
    JOB,
    NAMESPACE,
    POD,
    SCALED_OBJECT,
    SERVICE,
    STATEFUL_SET,
    Resource,
)

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


def _pod_state(pod: JsonObject) -> str:
    if is_terminating(pod):
        return "Terminating"
    state = str(pod["status"].get("phase", "Unknown"))
    for status in pod["status"].get("containerStatuses") or ():
        detail = status.get("state", {})
        state = (detail.get("waiting") or detail.get("terminated") or {}).get("reason", state)
    return state


def _pod_ready(pod: JsonObject) -> str:
    statuses = pod["status"].get("containerStatuses") or ()
    ready = sum(1 for status in statuses if status.get("ready"))
    return f"{ready}/{len(pod['spec']['containers'])}"


def _restarts(pod: JsonObject) -> int:
    return sum(s.get("restartCount", 0) for s in pod["status"].get("containerStatuses") or ())


def _involved(event: JsonObject) -> str:
    about = event.get("involvedObject") or {}
    return f"{about.get('kind', '')}/{about.get('name', '')}"


def _target(obj: JsonObject) -> str:
    target = obj["spec"].get("scaleTargetRef") or {}
    return f"{target.get('kind') or 'Deployment'}/{target.get('name')}"


def _status_count(field: str) -> Callable[[JsonObject], object]:
    return lambda obj: obj.get("status", {}).get(field, 0)


def _replicas_ready(workload: JsonObject) -> str:
    ready = workload.get("status", {}).get("readyReplicas", 0)
    return f"{ready}/{workload['spec']['replicas']}"


def _truth(kind: str) -> Callable[[JsonObject], object]:
    return lambda obj: (condition(obj, kind) or {}).get("status", "Unknown")


_COLUMNS: dict[Resource, tuple[Column, ...]] = {
    NAMESPACE: (("Status", lambda o: o["status"]["phase"]),),
    POD: (("Ready", _pod_ready), ("Status", _pod_state), ("Restarts", _restarts)),
    SERVICE: (
        ("Type", lambda o: o["spec"]["type"]),
        ("Cluster-IP", lambda o: o["spec"].get("clusterIP", "")),
        ("Port(s)", lambda o: ",".join(str(p["port"]) for p in o["spec"].get("ports") or ())),
    ),
    EVENT: (
        ("Type", lambda o: o.get("type", "")),
        ("Reason", lambda o: o.get("reason", "")),
        ("Object", _involved),
        ("Message", lambda o: o.get("message", "")),
    ),
    STATEFUL_SET: (("Ready", _replicas_ready),),
    DEPLOYMENT: (
        ("Ready", _replicas_ready),
        ("Up-to-date", _status_count("updatedReplicas")),
        ("Available", _status_count("availableReplicas")),
    ),
    JOB: (
        (
            "Completions",
            lambda o: f"{o.get('status', {}).get('succeeded', 0)}/{o['spec']['completions']}",
        ),
        ("Failed", _status_count("failed")),
    ),
    AUTOSCALER: (
        ("Reference", _target),
        ("MinPods", lambda o: o["spec"]["minReplicas"]),
        ("MaxPods", lambda o: o["spec"]["maxReplicas"]),
        ("Replicas", _status_count("currentReplicas")),
        ("Desired", _status_count("desiredReplicas")),
    ),
    SCALED_OBJECT: (
        ("Target", _target),
        ("Min", lambda o: o["spec"].get("minReplicaCount", 0)),
        ("Max", lambda o: o["spec"].get("maxReplicaCount", DEFAULT_MAX_REPLICAS)),
        ("Ready", _truth("Ready")),
        ("Active", _truth("Active")),
        ("Paused", _truth("Paused")),
    ),
}


def table_of(resource: Resource, items: list[JsonObject], version: str) -> JsonObject:
    """Return objects of one kind as a Table."""
    columns = (("Name", name_of), *_COLUMNS.get(resource, ()), ("Age", _age))
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
