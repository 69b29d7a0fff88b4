"""Convert objects to the Table format that ``kubectl get`` requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from lagbench.core.keda.object import DEFAULT_MAX_REPLICAS
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


def _count(title: str, field: str) -> Column:
    return title, lambda obj: obj.get("status", {}).get(field, 0)


def _spec(title: str, field: str, usual: object = "") -> Column:
    return title, lambda obj: obj["spec"].get(field, usual)


def _top(title: str) -> Column:
    return title, lambda obj: obj.get(title.lower(), "")


def _share(title: str, done: str, of: str) -> Column:
    return title, lambda obj: f"{obj.get('status', {}).get(done, 0)}/{obj['spec'][of]}"


def _truth(kind: str) -> Column:
    return kind, lambda obj: (condition(obj, kind) or {}).get("status", "Unknown")


_READY = _share("Ready", "readyReplicas", "replicas")
_COLUMNS: dict[str, tuple[Column, ...]] = {
    "Namespace": (("Status", lambda obj: obj["status"]["phase"]),),
    "Pod": (
        ("Ready", _pod_ready),
        ("Status", _pod_state),
        ("Restarts", lambda pod: sum(s.get("restartCount", 0) for s in _statuses(pod))),
    ),
    "Service": (
        _spec("Type", "type"),
        _spec("Cluster-IP", "clusterIP"),
        ("Port(s)", lambda o: ",".join(str(p["port"]) for p in o["spec"].get("ports") or ())),
    ),
    "Event": (_top("Type"), _top("Reason"), ("Object", _involved), _top("Message")),
    "StatefulSet": (_READY,),
    "Deployment": (
        _READY,
        _count("Up-to-date", "updatedReplicas"),
        _count("Available", "availableReplicas"),
    ),
    "Job": (_share("Completions", "succeeded", "completions"), _count("Failed", "failed")),
    "HorizontalPodAutoscaler": (
        ("Reference", _target),
        _spec("MinPods", "minReplicas"),
        _spec("MaxPods", "maxReplicas"),
        _count("Replicas", "currentReplicas"),
        _count("Desired", "desiredReplicas"),
    ),
    "ScaledObject": (
        ("Target", _target),
        _spec("Min", "minReplicaCount", 0),
        _spec("Max", "maxReplicaCount", DEFAULT_MAX_REPLICAS),
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
