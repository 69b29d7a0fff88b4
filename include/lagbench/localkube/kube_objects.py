"""API errors, each returned to the client as a ``Status`` object."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

from lagbench.core.scenario.run_names import PORT_ANNOTATION


class ApiError(Exception):
    """A request that is answered with a failure ``Status``."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        causes: Sequence[dict[str, Any]] = (),
        kind: str = "",
        name: str = "",
    ) -> None:
        """Keep the content of the Status; ``causes`` are StatusCause objects."""
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.causes, self.kind, self.name = list(causes), kind, name

    def status(self) -> dict[str, Any]:
        """Return the ``Status`` object of this error."""
        details = {"name": self.name, "kind": self.kind, "causes": self.causes}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": {field: value for field, value in details.items() if value},
            "code": self.code,
        }


def not_found(plural: str, name: str) -> ApiError:
    """Return the error for an object that does not exist."""
    return ApiError(404, "NotFound", f'{plural} "{name}" not found', kind=plural, name=name)


def no_such_path(path: str) -> ApiError:
    """Return the error for a kind or path that localkube does not serve."""
    return ApiError(
        404,
        "NotFound",
        f"the server could not find the requested resource: localkube does not serve {path}",
    )


def already_exists(plural: str, name: str) -> ApiError:
    """Return the error for creating an object that already exists."""
    text = f'{plural} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, kind=plural, name=name)


def conflict(plural: str, name: str, why: str) -> ApiError:
    """Return the error for a write based on another state of the object."""
    text = f'Operation cannot be fulfilled on {plural} "{name}": {why}'
    return ApiError(409, "Conflict", text, kind=plural, name=name)


def invalid(kind: str, name: str, causes: Sequence[tuple[str, str]]) -> ApiError:
    """Return the error for an object whose fields break the rules; ``causes``: (field, message)."""
    text = ", ".join(f"{field}: {message}" for field, message in causes)
    return ApiError(
        422,
        "Invalid",
        f'{kind} "{name}" is invalid: {text}',
        kind=kind,
        name=name,
        causes=[
            {"reason": "FieldValueInvalid", "field": field, "message": message}
            for field, message in causes
        ],
    )


def bad_request(message: str) -> ApiError:
    """Return the error for a request that cannot be understood."""
    return ApiError(400, "BadRequest", message)


def not_allowed(message: str) -> ApiError:
    """Return the error for a verb that a kind does not have."""
    return ApiError(405, "MethodNotAllowed", message)


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
