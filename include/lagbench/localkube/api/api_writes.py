"""Handle write requests: create, replace, patch and apply, for objects and subresources."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from lagbench.core.workload_state import selector_string
from lagbench.localkube.kube_objects import (
    JsonObject,
    JsonValue,
    bad_request,
    conflict,
    copy_of,
    invalid,
    name_of,
    namespace_of,
    not_allowed,
)
from lagbench.localkube.merging import patch
from lagbench.localkube.merging.apply import Owner, apply, record_update, without_nulls
from lagbench.localkube.storage.object_registry import Asked, Registry
from lagbench.localkube.storage.object_store import STALE
from lagbench.localkube.storage.resources import Target

_Change = Callable[[JsonObject], JsonObject]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The query parameters of a write request."""

    field_manager: str
    force: bool = False
    dry_run: bool = False
    asked: Asked = dataclasses.field(default_factory=Asked)


class Writes:
    """The write half of the API."""

    def __init__(self, registry: Registry) -> None:
        """Write through ``registry``."""
        self._registry = registry

    def create(self, target: Target, body: JsonObject, options: WriteOptions) -> JsonObject:
        """Create the object in ``body``."""
        _check_identity(target, body, needs_name=False)
        obj = copy_of(body)
        obj.setdefault("metadata", {}).pop("managedFields", None)
        self._record(target, None, obj, options)
        return self._registry.create(
            target.resource, obj, target.namespace, dry_run=options.dry_run, asked=options.asked
        )

    def replace(self, target: Target, body: JsonObject, options: WriteOptions) -> JsonObject:
        """Replace the object with ``body``."""
        return self._write(target, lambda _live: copy_of(body), options)

    def patch(
        self, target: Target, body: JsonValue, content_type: str, options: WriteOptions
    ) -> JsonObject:
        """Apply a patch of one of the four formats."""
        if content_type == patch.APPLY and target.subresource != "scale":
            return self._apply(target, body, options)
        custom = target.resource.is_custom
        return self._write(
            target, lambda live: patch.patched(live, body, content_type, is_custom=custom), options
        )

    def _write(self, target: Target, change: _Change, options: WriteOptions) -> JsonObject:
        resource, is_scale = target.resource, target.subresource == "scale"
        live = self._registry.store.get(resource, target.namespace, target.name)
        if is_scale:
            after = _with_scale(live, change(scale_of(live)))
        else:
            changed = change(live)
            _check_identity(target, changed, needs_name=True)
            after = _taken_over(target, live, changed)
        self._record(target, live, after, options)
        stored = self._registry.update(
            resource, after, dry_run=options.dry_run, asked=options.asked
        )
        return scale_of(stored) if is_scale else stored

    def _apply(self, target: Target, body: JsonValue, options: WriteOptions) -> JsonObject:
        wanted = without_nulls(body)
        if not isinstance(wanted, dict):
            raise bad_request("an apply needs an object")
        wanted.setdefault("metadata", {}).setdefault("name", target.name)
        _check_identity(target, wanted, needs_name=True)
        if wanted["metadata"].pop("managedFields", None):
            raise bad_request("metadata.managedFields must be nil")
        if not options.field_manager:
            raise bad_request("fieldManager is required for apply patch")
        resource, custom = target.resource, target.resource.is_custom
        if resource.has_status and not target.subresource:
            wanted.pop("status", None)
        live = self._registry.store.find(resource, target.namespace, target.name)
        writer = self._writer(target, options, "Apply")
        version = wanted["metadata"].pop("resourceVersion", None)
        if live is None and (version or target.subresource):
            live = self._registry.store.get(resource, target.namespace, target.name)
        merged = apply(live, wanted, writer, force=options.force, is_custom=custom)
        if live is None:
            return self._registry.create(
                resource, merged, target.namespace, dry_run=options.dry_run, asked=options.asked
            )
        after = _taken_over(target, live, merged)
        after["metadata"]["managedFields"] = merged["metadata"].get("managedFields", [])
        if version:
            after["metadata"]["resourceVersion"] = version
        return self._registry.update(resource, after, dry_run=options.dry_run, asked=options.asked)

    def _record(
        self, target: Target, live: JsonObject | None, after: JsonObject, options: WriteOptions
    ) -> None:
        writer = self._writer(target, options, "Update")
        record_update(live, after, writer, is_custom=target.resource.is_custom)

    def _writer(self, target: Target, options: WriteOptions, operation: str) -> Owner:
        return Owner(
            manager=options.field_manager,
            operation=operation,
            subresource=target.subresource,
            fields=frozenset(),
            api_version=target.resource.api_version,
            at=self._registry.now(),
        )


def _taken_over(target: Target, live: JsonObject, changed: JsonObject) -> JsonObject:
    """Return the object as this write may change it: status only through its subresource."""
    version = (changed.get("metadata") or {}).get("resourceVersion")
    if version and version != live["metadata"]["resourceVersion"]:
        raise conflict(target.resource.qualified_plural, target.name, STALE)
    is_status = target.subresource == "status"
    if not (is_status or target.resource.has_status):
        return changed
    after, status = (copy_of(live), changed) if is_status else (changed, live)
    after.pop("status", None)
    if "status" in status:
        after["status"] = copy_of(status["status"])
    return after


def _check_identity(target: Target, body: JsonObject, *, needs_name: bool) -> None:
    """Reject a body that describes another object than the path."""
    resource = target.resource
    if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
        raise bad_request("the body must be an object with metadata")
    if resource.namespaced and not target.namespace:
        raise not_allowed("the path of this request needs a namespace")
    metadata = body.get("metadata", {})
    expected = {"kind": (body, resource.kind), "apiVersion": (body, resource.api_version)}
    if resource.namespaced:
        expected["namespace"] = (metadata, target.namespace)
    if needs_name:
        expected["name"] = (metadata, target.name)
    for field, (place, wanted) in expected.items():
        given = place.get(field, wanted)
        if given != wanted:
            raise bad_request(f"{field} {given!r} in the body does not match the path ({wanted!r})")
    if needs_name:
        metadata.update({"name": target.name})
        if resource.namespaced:
            metadata["namespace"] = target.namespace


def scale_of(workload: JsonObject) -> JsonObject:
    """Return the ``autoscaling/v1`` Scale object of a workload."""
    metadata, replicas = workload["metadata"], workload["spec"].get("replicas", 1)
    copied = ("uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": name_of(workload),
            "namespace": namespace_of(workload),
            **{field: metadata[field] for field in copied},
        },
        "spec": {"replicas": replicas} if replicas else {},  # the API server leaves 0 out
        "status": {
            "replicas": workload.get("status", {}).get("replicas", 0),
            "selector": selector_string(workload["spec"].get("selector") or {}),
        },
    }


def _with_scale(workload: JsonObject, scale: JsonObject) -> JsonObject:
    """Return a copy of ``workload`` with the replicas that a written Scale object requests."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 0:
        message = f"Invalid value: {replicas!r}: must be an integer greater than or equal to 0"
        raise invalid("Scale", name_of(workload), [("spec.replicas", message)])
    after = copy_of(workload)
    after["spec"]["replicas"] = replicas
    if given := (scale.get("metadata") or {}).get("resourceVersion"):
        after["metadata"]["resourceVersion"] = given
    return after
