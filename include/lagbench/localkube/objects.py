"""Access the parts that every kind of Kubernetes object (a JSON document) has."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

from lagbench.core.scenario.run_names import PORT_ANNOTATION

JsonObject: TypeAlias = dict[str, Any]
JsonValue: TypeAlias = Any
_Copied = TypeVar("_Copied")

CREATED_AT_NS = "lagbench.io/created-at-ns"
STARTED_AT_NS = "lagbench.io/started-at-ns"
READY_AT_NS = "lagbench.io/ready-at-ns"
DELETED_AT_NS = "lagbench.io/deleted-at-ns"
COMES_FIRST = "lagbench.io/comes-first"
"""``true``: the pod gets processor time before others, as far as the machine allows it."""


def copy_of(value: _Copied) -> _Copied:
    """Return a deep copy: stored objects are never changed in place."""
    return copy.deepcopy(value)


def name_of(obj: JsonObject) -> str:
    """Return ``metadata.name``."""
    return str(obj["metadata"]["name"])


def namespace_of(obj: JsonObject) -> str:
    """Return ``metadata.namespace``, empty for a cluster-wide kind."""
    return str(obj["metadata"].get("namespace") or "")


def uid_of(obj: JsonObject) -> str:
    """Return ``metadata.uid``."""
    return str(obj["metadata"]["uid"])


def labels_of(obj: JsonObject) -> Mapping[str, str]:
    """Return ``metadata.labels``, empty when there are none."""
    return obj.get("metadata", {}).get("labels") or {}


def annotations_of(obj: JsonObject) -> Mapping[str, str]:
    """Return ``metadata.annotations``, empty when there are none."""
    return obj.get("metadata", {}).get("annotations") or {}


def annotate(obj: JsonObject, name: str, value: str) -> None:
    """Set one annotation of ``obj`` in place."""
    obj["metadata"].setdefault("annotations", {})[name] = value


def port_annotation(port: JsonObject, number: str) -> str:
    """Return the annotation with the loopback port of a declared port, by name or number."""
    return f"{PORT_ANNOTATION}{port.get('name') or port[number]}"


def is_terminating(obj: JsonObject) -> bool:
    """Return whether deletion of ``obj`` was requested."""
    return "deletionTimestamp" in obj["metadata"]


def controller_uid(obj: JsonObject) -> str | None:
    """Return the uid of the object's controlling owner."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference["uid"])
    return None


def owner_reference(owner: JsonObject) -> JsonObject:
    """Return the reference that makes ``owner`` the controller of another object."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def condition(obj: JsonObject, kind: str) -> JsonObject | None:
    """Return the status condition of type ``kind``."""
    for entry in obj.get("status", {}).get("conditions") or ():
        if entry.get("type") == kind:
            return dict(entry)
    return None


def set_condition(
    status: JsonObject, kind: str, *, holds: bool, at: str, reason: str = "", message: str = ""
) -> None:
    """Set a condition in ``status``; its transition time changes only with its truth."""
    entry = {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": at}
    if reason:
        entry["reason"] = reason
    if message:
        entry["message"] = message
    conditions = status.setdefault("conditions", [])
    for index, before in enumerate(conditions):
        if before["type"] == kind:
            if before["status"] == entry["status"]:
                entry["lastTransitionTime"] = before["lastTransitionTime"]
            conditions[index] = entry
            return
    conditions.append(entry)


def rfc3339(seconds: float) -> str:
    """Return an instant (seconds since the epoch) in Kubernetes' time format: whole seconds, Z."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def from_rfc3339(text: str) -> float:
    """Return the seconds since the epoch of a Kubernetes time."""
    return datetime.fromisoformat(text).timestamp()
