"""Convert objects to the Table format that ``kubectl get`` requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from lagbench.core.keda.object.spec import DEFAULT_MAX_REPLICAS
from lagbench.localkube.objects import JsonObject, condition, from_rfc3339, is_terminating, name_of
from lagbench.localkube.storage.resources import Resource

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
