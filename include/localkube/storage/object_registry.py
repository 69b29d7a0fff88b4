"""Apply the API's rules to written objects before they are stored."""

from __future__ import annotations

import re
import secrets
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from localkube.kinds import EVENT, NAMESPACE, POD, Resource
from localkube.kube_objects import (
    CREATED_AT_NS,
    DELETED_AT_NS,
    ApiError,
    JsonObject,
    KubeObject,
    Write,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
    rfc3339,
)
from localkube.storage import defaults_and_rules as rules
from localkube.storage.object_store import Store

_LIST = re.compile(r"list\[(.+)\]")
_MAP = re.compile(r"dict\(str, (.+)\)")
# Kubernetes' alphabet of generated names: without vowels and look-alikes.
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
# Set by the server; a client's values for them are ignored.
_SERVER_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def random_suffix() -> str:
    """Return five characters that make a generated name unique."""
    return "".join(secrets.choice(ALPHABET) for _ in range(5))


class Registry:
    """The way of all writes into the store."""

    def __init__(self, store: Store, *, wall_ns: Callable[[], int] = time.time_ns) -> None:
        """Write into ``store`` with instants from ``wall_ns``."""
        self.store = store
        self.now_ns = wall_ns

    def now(self) -> str:
        """Return the wall clock in Kubernetes' time format."""
        return rfc3339(self.now_ns() / 1e9)

    def create(
        self, resource: Resource, given: JsonObject, namespace: str, write: Write | None = None
    ) -> KubeObject:
        """Create an object and return it as stored; a dry run only returns it."""
        obj, write = KubeObject(given).copy(), write or Write()
        obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
        metadata = obj.setdefault("metadata", {})
        for field in (*_SERVER_FIELDS, "resourceVersion", "selfLink", "generation"):
            metadata.pop(field, None)
        if resource.namespaced:
            metadata["namespace"] = namespace
            self._check_namespace(resource, namespace, metadata.get("name", ""))
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + random_suffix()
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = self.now()
        if "spec" in obj:
            metadata["generation"] = 1
        if resource.has_status:
            obj.pop("status", None)
        if resource == POD:
            obj.annotate(CREATED_AT_NS, self.now_ns())
            obj["status"] = {"phase": "Pending"}
        if resource == NAMESPACE:
            obj["status"] = {"phase": "Active"}
            obj.setdefault("spec", {})["finalizers"] = ["kubernetes"]
        self._check_desired(resource, obj, write)
        if not write.is_dry_run:
            return self.store.insert(resource, obj)
        if self.store.find(resource, *obj.key) is not None:
            raise already_exists(resource.qualified_plural, obj.name)
        return obj

    def update(self, resource: Resource, obj: KubeObject, write: Write | None = None) -> KubeObject:
        """Replace an object, both spec and status, by a changed copy of itself."""
        before, write = self.store.get(resource, *obj.key), write or Write()
        if obj.metadata.get("uid") not in (None, before.uid):
            why = f"its UID is {before.uid}, not {obj.uid}"
            raise conflict(resource.qualified_plural, obj.name, why)
        obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
        for field in _SERVER_FIELDS:
            obj.metadata.pop(field, None)
        kept = (*_SERVER_FIELDS, "generation")
        obj.metadata.update({f: before.metadata[f] for f in kept if f in before.metadata})
        if _desired(obj) != _desired(before):
            self._check_desired(resource, obj, write)
            if faults := resource.find_change_faults(before, obj):
                raise invalid(resource.kind, obj.name, faults)
        else:  # only status or metadata changed: no strict check or admission of the spec
            _check(resource, obj)
        if "generation" in obj.metadata and _desired(obj) != _desired(before):
            obj.metadata["generation"] += 1
        if write.is_dry_run:
            return obj
        stored = self.store.replace(resource, obj)
        if stored.is_terminating and not stored.finalizers:
            # A pod stays until its processes have ended (its node then sets the grace period to
            # 0), a namespace until it is empty.
            has_ended = stored.metadata.get("deletionGracePeriodSeconds") == 0
            if resource != NAMESPACE and (resource != POD or has_ended):
                self.store.remove(resource, *stored.key)
        return stored

    def change(
        self, resource: Resource, namespace: str, name: str, edit: Callable[[KubeObject], None]
    ) -> KubeObject | None:
        """Apply ``edit`` to a copy of an object and store it; None if the object does not exist."""
        before = self.store.find(resource, namespace, name)
        if before is None:
            return None
        obj = before.copy()
        edit(obj)
        return self.store.replace(resource, obj)

    def mark_deleted(self, resource: Resource, obj: KubeObject, grace_seconds: int) -> KubeObject:
        """Set the deletion timestamp; a later request can only shorten the grace period."""
        after, now_ns = obj.copy(), self.now_ns()
        earlier = after.metadata.get("deletionGracePeriodSeconds")
        if earlier is not None and earlier <= grace_seconds:
            return obj
        after.metadata["deletionTimestamp"] = rfc3339(now_ns / 1e9 + grace_seconds)
        after.metadata["deletionGracePeriodSeconds"] = grace_seconds
        if resource == POD and earlier is None:
            after.annotate(DELETED_AT_NS, now_ns)
        return self.store.replace(resource, after)

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        found = self.store.find(NAMESPACE, "", namespace)
        if found is None:
            raise not_found("namespaces", namespace)
        if found.is_terminating and resource != EVENT:
            text = (
                f'{resource.qualified_plural} "{name}" is forbidden: unable to create new content '
                f"in namespace {namespace} because it is being terminated"
            )
            raise ApiError(403, "Forbidden", text, kind=resource.plural, name=name)

    def _check_desired(self, resource: Resource, obj: KubeObject, write: Write) -> None:
        """Check an object with a written spec by the validation that the writer requested."""
        if not resource.is_custom and write.field_validation == "Strict":
            unknown = ", ".join(f'unknown field "{path}"' for path in unknown_fields(resource, obj))
            if unknown:
                kind = resource.kind
                raise bad_request(
                    f'{kind} in version "{resource.version}" cannot be handled as a {kind}: '
                    f"strict decoding error: {unknown}"
                )
        _check(resource, obj)
        if resource.admit is not None:
            resource.admit(obj, write, self.store.select)


def _check(resource: Resource, obj: KubeObject) -> None:
    """Fill in defaults and raise the API's 422 when a rule is broken."""
    faults = rules.name_faults(obj.metadata.get("name"))
    for field in ("labels", "annotations"):
        entries = obj.metadata.get(field) or {}
        if not isinstance(entries, dict) or not all(isinstance(v, str) for v in entries.values()):
            faults.append((f"metadata.{field}", "Invalid value: all values must be strings"))
    if not faults:
        try:
            resource.apply_defaults(obj)
            faults = resource.find_faults(obj)
        except (AttributeError, TypeError, KeyError) as error:
            faults = [("", f"a field has another type than the API's: {error}")]
    if faults:
        raise invalid(resource.kind, str(obj.metadata.get("name", "")), faults)


def _desired(obj: KubeObject) -> JsonObject:
    """Return the part of an object in which a change counts as a new generation."""
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def unknown_fields(resource: Resource, obj: Mapping[str, Any]) -> list[str]:
    """Return the paths of the fields of ``obj`` that its kind does not have, sorted.

    kubectl requests ``fieldValidation=Strict``: a misspelt field is an error. The official client's
    models are generated from the API's own schemas, so they define all fields. They are imported on
    demand, because the import takes most of a second.
    """
    prefix = "CoreV1" if resource == EVENT else resource.version.capitalize()
    return sorted(_unknown(f"{prefix}{resource.kind}", obj, ""))


def _unknown(type_name: str, value: Any, path: str) -> Iterator[str]:
    from kubernetes.client import models

    if (inner := _LIST.fullmatch(type_name)) is not None:
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _unknown(inner[1], item, f"{path}[{index}]")
    elif (inner := _MAP.fullmatch(type_name)) is not None:
        for name, item in value.items() if isinstance(value, Mapping) else ():
            yield from _unknown(inner[1], item, f"{path}.{name}")
    elif (model := getattr(models, type_name, None)) is not None and isinstance(value, Mapping):
        types = {model.attribute_map[name]: of for name, of in model.openapi_types.items()}
        for name, item in value.items():
            place = f"{path}.{name}" if path else str(name)
            if name in types:
                yield from _unknown(types[name], item, place)
            else:
                yield place
