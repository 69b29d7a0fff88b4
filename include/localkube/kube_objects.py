"""Kubernetes objects, what is said about them in errors, and the selectors that choose them."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
JsonValue: TypeAlias = Any
FieldValidation = Literal["Strict", "Warn", "Ignore"]

CREATED_AT_NS = "lagbench.io/created-at-ns"
STARTED_AT_NS = "lagbench.io/started-at-ns"
READY_AT_NS = "lagbench.io/ready-at-ns"
DELETED_AT_NS = "lagbench.io/deleted-at-ns"
ORDINAL = "lagbench.io/ordinal"
"""The number of pods that its workload had created before this one."""
PORT = "lagbench.io/port-"
"""With the name or number of a port: the loopback port behind it, of a pod or a service."""
COMES_FIRST = "lagbench.io/comes-first"
"""``true``: the pod gets processor time before others, as far as the machine allows it."""

PROBE_KINDS = ("readinessProbe", "livenessProbe", "startupProbe")


class LocalkubeError(Exception):
    """localkube cannot start or continue; the message says what to do."""


class KubeObject(JsonObject):
    """An object of the API. A stored one is never changed, but replaced by a changed copy."""

    def copy(self) -> KubeObject:
        """Return a deep copy."""
        return KubeObject(copy.deepcopy(dict(self)))

    @property
    def metadata(self) -> JsonObject:
        """``metadata``."""
        found: JsonObject = self["metadata"]
        return found

    @property
    def spec(self) -> JsonObject:
        """``spec``."""
        found: JsonObject = self["spec"]
        return found

    @property
    def status(self) -> JsonObject:
        """``status``, empty when there is none."""
        return self.get("status") or {}

    @property
    def name(self) -> str:
        """``metadata.name``."""
        return str(self.metadata["name"])

    @property
    def namespace(self) -> str:
        """``metadata.namespace``, empty for a cluster-wide kind."""
        return str(self.metadata.get("namespace") or "")

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name, which identify an object of its kind."""
        return self.namespace, self.name

    @property
    def uid(self) -> str:
        """``metadata.uid``."""
        return str(self.metadata["uid"])

    @property
    def labels(self) -> Mapping[str, str]:
        """``metadata.labels``, empty when there are none."""
        return self.metadata.get("labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """``metadata.annotations``, empty when there are none."""
        return self.metadata.get("annotations") or {}

    def annotate(self, name: str, value: object) -> None:
        """Set one annotation in place."""
        self.metadata.setdefault("annotations", {})[name] = str(value)

    @property
    def is_terminating(self) -> bool:
        """True: its deletion was requested."""
        return "deletionTimestamp" in self.metadata

    @property
    def finalizers(self) -> Sequence[str]:
        """The names of those that must act before it is removed."""
        return self.metadata.get("finalizers") or ()

    @property
    def owners(self) -> Sequence[JsonObject]:
        """``metadata.ownerReferences``."""
        return self.metadata.get("ownerReferences") or ()

    @property
    def controller_uid(self) -> str | None:
        """The uid of the controlling owner."""
        found = (str(owner["uid"]) for owner in self.owners if owner.get("controller"))
        return next(found, None)

    def reference(self) -> JsonObject:
        """Return the reference that makes this object the controller of another one."""
        return {
            "apiVersion": self["apiVersion"],
            "kind": self["kind"],
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def condition(self, kind: str) -> JsonObject:
        """Return the status condition of type ``kind``, empty when there is none."""
        held = (entry for entry in self.status.get("conditions") or () if entry["type"] == kind)
        return next(held, {})

    @property
    def is_ready(self) -> bool:
        """True: the pod has the condition Ready."""
        return self.condition("Ready").get("status") == "True"

    @property
    def has_ended(self) -> bool:
        """True: none of the pod's containers will run again."""
        return self.status.get("phase") in ("Succeeded", "Failed")

    @property
    def container_statuses(self) -> Sequence[JsonObject]:
        """``status.containerStatuses`` of a pod."""
        return self.status.get("containerStatuses") or ()


def port_annotation(port: JsonObject, number: str) -> str:
    """Return the annotation with the loopback port of a declared port, by name or number."""
    return f"{PORT}{port.get('name') or port[number]}"


def set_condition(
    status: JsonObject, kind: str, *, holds: bool, at: str, reason: str = "", message: str = ""
) -> None:
    """Set a condition in ``status``; its transition time changes only with its truth."""
    entry = {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": at}
    entry |= {"reason": reason} if reason else {}
    entry |= {"message": message} if message else {}
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


@dataclass(frozen=True, slots=True)
class Write:
    """The parameters of a client's write; ``warnings`` are added for its answer."""

    field_manager: str = ""
    force: bool = False
    is_dry_run: bool = False
    field_validation: FieldValidation = "Warn"
    warnings: list[str] = field(default_factory=list)


class ApiError(Exception):
    """A request that is answered with a failure ``Status``."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        causes: Sequence[JsonObject] = (),
        kind: str = "",
        name: str = "",
    ) -> None:
        """Keep the content of the Status; ``causes`` are StatusCause objects."""
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self._details = {"name": name, "kind": kind, "causes": list(causes)}

    def status(self) -> JsonObject:
        """Return the ``Status`` object of this error."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": {field: value for field, value in self._details.items() if value},
            "code": self.code,
        }


def not_found(plural: str, name: str) -> ApiError:
    """Return the error for an object that does not exist."""
    return ApiError(404, "NotFound", f'{plural} "{name}" not found', kind=plural, name=name)


def no_such_path(path: str) -> ApiError:
    """Return the error for a kind or path that localkube does not serve."""
    text = f"the server could not find the requested resource: localkube does not serve {path}"
    return ApiError(404, "NotFound", text)


def already_exists(plural: str, name: str) -> ApiError:
    """Return the error for creating an object that already exists."""
    text = f'{plural} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, kind=plural, name=name)


def conflict(plural: str, name: str, why: str) -> ApiError:
    """Return the error for a write based on another state of the object."""
    text = f'Operation cannot be fulfilled on {plural} "{name}": {why}'
    return ApiError(409, "Conflict", text, kind=plural, name=name)


def invalid(kind: str, name: str, faults: Sequence[tuple[str, str]]) -> ApiError:
    """Return the error for an object whose fields break the rules; ``faults``: (field, message)."""
    text = ", ".join(f"{field}: {message}" for field, message in faults)
    causes = [
        {"reason": "FieldValueInvalid", "field": field, "message": message}
        for field, message in faults
    ]
    text = f'{kind} "{name}" is invalid: {text}'
    return ApiError(422, "Invalid", text, kind=kind, name=name, causes=causes)


def bad_request(message: str) -> ApiError:
    """Return the error for a request that cannot be understood."""
    return ApiError(400, "BadRequest", message)


def not_allowed(message: str) -> ApiError:
    """Return the error for a verb that a kind does not have."""
    return ApiError(405, "MethodNotAllowed", message)


Matcher: TypeAlias = Callable[[KubeObject], bool]
LabelMatcher: TypeAlias = Callable[[Mapping[str, str]], bool]

_SET_TERM = re.compile(r"([\w./-]+)\s+(in|notin)\s+\(([^)]*)\)")
_EQUAL_TERM = re.compile(r"([\w./-]+)\s*(!=|==|=)\s*([\w./-]*)")
_EXISTS_TERM = re.compile(r"(!?)\s*([\w./-]+)")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")
# The API server allows fewer fields per kind; these are the fields that clients use.
_FIELDS = re.compile(
    r"metadata\.name(space)?|status\.phase|spec\.nodeName|type|reason"
    r"|involvedObject\.(name|namespace|kind|uid|apiVersion|fieldPath|resourceVersion)"
)


def selector_string(selector: Mapping[str, Any]) -> str:
    """Return a spec's LabelSelector in the string form of requests and Scale objects."""
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    forms = {"In": "{} in ({})", "NotIn": "{} notin ({})", "Exists": "{}", "DoesNotExist": "!{}"}
    for rule in selector.get("matchExpressions") or ():
        values = ",".join(rule.get("values") or ())
        terms.append(forms[rule["operator"]].format(rule["key"], values))
    return ",".join(terms)


def label_matcher(selector: str) -> LabelMatcher:
    """Return a test on labels for a selector such as ``app=x,tier in (a,b),!old``."""
    pieces = (piece.strip() for piece in _COMMA_OUTSIDE_PARENTHESES.split(selector))
    terms = [_label_term(piece) for piece in pieces if piece]
    return lambda labels: all(term(labels) for term in terms)


def _label_term(term: str) -> LabelMatcher:
    if found := _SET_TERM.fullmatch(term):
        key, is_in = found[1], found[2] == "in"
        values = {value.strip() for value in found[3].split(",")}
        return lambda labels: (labels.get(key) in values) is is_in
    if found := _EQUAL_TERM.fullmatch(term):
        key, is_equal, value = found[1], found[2] != "!=", found[3]
        return lambda labels: (labels.get(key) == value) is is_equal
    if found := _EXISTS_TERM.fullmatch(term):
        key, is_wanted = found[2], not found[1]
        return lambda labels: (key in labels) is is_wanted
    raise bad_request(f"unable to parse label selector requirement {term!r}")


def request_matcher(label_selector: str, field_selector: str) -> Matcher:
    """Return the test for a request's two selectors; each of them may be empty."""
    by_label = label_matcher(label_selector)
    terms: list[tuple[str, bool, str]] = []
    for text in filter(None, (piece.strip() for piece in field_selector.split(","))):
        found = _EQUAL_TERM.fullmatch(text)
        if found is None:
            raise bad_request(f"unable to parse field selector requirement {text!r}")
        if not _FIELDS.fullmatch(found[1]):
            raise bad_request(f"field label not supported: {found[1]}")
        terms.append((found[1], found[2] != "!=", found[3]))
    return lambda obj: (
        by_label(obj.labels)
        and all((str(field_at(path)(obj)) == value) is is_equal for path, is_equal, value in terms)
    )


def field_at(path: str, usual: object = "") -> Callable[[JsonObject], object]:
    """Return what reads a field, such as ``spec.type``; ``usual`` where there is none."""
    *parents, last = path.split(".")

    def read(obj: JsonObject) -> object:
        for parent in parents:
            obj = obj.get(parent) or {}
        return obj.get(last, usual)

    return read


def scale_target(autoscaler: KubeObject) -> str:
    """Return kind and name of what an autoscaler scales."""
    target = autoscaler.spec.get("scaleTargetRef") or {}
    return f"{target.get('kind') or 'Deployment'}/{target.get('name')}"
