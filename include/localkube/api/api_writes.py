"""Handle write requests: create, replace, patch and apply, for objects and subresources."""

from __future__ import annotations

from collections.abc import Callable

from localkube.kinds import Target
from localkube.kube_objects import (
    JsonObject,
    JsonValue,
    KubeObject,
    Write,
    bad_request,
    conflict,
    invalid,
    not_allowed,
    selector_string,
)
from localkube.merging import patch
from localkube.merging.apply import FieldRules, Owner, without_nulls
from localkube.storage.object_registry import Registry
from localkube.storage.object_store import STALE


class Writes:
    """The write half of the API."""

    def __init__(self, registry: Registry) -> None:
        """Write through ``registry``."""
        self._registry = registry

    def create(self, target: Target, body: KubeObject, write: Write) -> KubeObject:
        """Create the object in ``body``."""
        _check_identity(target, body, needs_name=False)
        obj = body.copy()
        obj.setdefault("metadata", {}).pop("managedFields", None)
        self._record(target, None, obj, write)
        return self._registry.create(target.resource, obj, target.namespace, write)

    def replace(self, target: Target, body: KubeObject, write: Write) -> JsonObject:
        """Replace the object with ``body``."""
        return self._write(target, lambda _live: body.copy(), write)

    def patch(self, target: Target, body: JsonValue, content_type: str, write: Write) -> JsonObject:
        """Apply a patch of one of the four formats."""
        if content_type == patch.APPLY and target.subresource != "scale":
            return self._apply(target, body, write)
        custom = target.resource.is_custom
        return self._write(
            target, lambda live: patch.patched(live, body, content_type, is_custom=custom), write
        )

    def _write(
        self, target: Target, change: Callable[[JsonObject], JsonObject], write: Write
    ) -> JsonObject:
        resource, is_scale = target.resource, target.subresource == "scale"
        live = self._registry.store.get(resource, target.namespace, target.name)
        if is_scale:
            after = _with_scale(live, change(scale_of(live)))
        else:
            changed = KubeObject(change(live))
            _check_identity(target, changed, needs_name=True)
            after = _taken_over(target, live, changed)
        self._record(target, live, after, write)
        stored = self._registry.update(resource, after, write)
        return scale_of(stored) if is_scale else stored

    def _apply(self, target: Target, body: JsonValue, write: Write) -> KubeObject:
        if not isinstance(body, dict):
            raise bad_request("an apply needs an object")
        wanted = KubeObject(without_nulls(body))
        wanted.setdefault("metadata", {}).setdefault("name", target.name)
        _check_identity(target, wanted, needs_name=True)
        if wanted.metadata.pop("managedFields", None):
            raise bad_request("metadata.managedFields must be nil")
        if not write.field_manager:
            raise bad_request("fieldManager is required for apply patch")
        resource, store = target.resource, self._registry.store
        if resource.has_status and not target.subresource:
            wanted.pop("status", None)
        version = wanted.metadata.pop("resourceVersion", None)
        find = store.get if version or target.subresource else store.find
        live = find(resource, target.namespace, target.name)
        writer, rules = self._writer(target, write, "Apply"), FieldRules(resource.is_custom)
        merged = rules.apply(live, wanted, writer, force=write.force)
        if live is None:
            return self._registry.create(resource, merged, target.namespace, write)
        after = _taken_over(target, live, merged)
        after.metadata["managedFields"] = merged.metadata.get("managedFields", [])
        if version:
            after.metadata["resourceVersion"] = version
        return self._registry.update(resource, after, write)

    def _record(
        self, target: Target, live: KubeObject | None, after: KubeObject, write: Write
    ) -> None:
        writer = self._writer(target, write, "Update")
        FieldRules(target.resource.is_custom).record_update(live, after, writer)

    def _writer(self, target: Target, write: Write, operation: str) -> Owner:
        return Owner(
            manager=write.field_manager,
            operation=operation,
            subresource=target.subresource,
            fields=frozenset(),
            api_version=target.resource.api_version,
            at=self._registry.now(),
        )


def _taken_over(target: Target, live: KubeObject, changed: KubeObject) -> KubeObject:
    """Return the object as this write may change it: status only through its subresource."""
    version = changed.metadata.get("resourceVersion")
    if version and version != live.metadata["resourceVersion"]:
        raise conflict(target.resource.qualified_plural, target.name, STALE)
    is_status = target.subresource == "status"
    if not (is_status or target.resource.has_status):
        return changed
    after, source = (live.copy(), changed) if is_status else (changed, live.copy())
    after.pop("status", None)
    if "status" in source:
        after["status"] = source["status"]
    return after


def _check_identity(target: Target, body: KubeObject, *, needs_name: bool) -> None:
    """Reject a body that describes another object than the path."""
    resource, metadata = target.resource, body.get("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request("the body must be an object with metadata")
    if resource.namespaced and not target.namespace:
        raise not_allowed("the path of this request needs a namespace")
    place = {"namespace": target.namespace} if resource.namespaced else {}
    place |= {"name": target.name} if needs_name else {}
    expected = {"kind": resource.kind, "apiVersion": resource.api_version}
    for part, fields in ((body, expected), (metadata, place)):
        for field, wanted in fields.items():
            given = part.get(field, wanted)
            if given != wanted:
                raise bad_request(
                    f"{field} {given!r} in the body does not match the path ({wanted!r})"
                )
    if needs_name:
        body["metadata"] = metadata | place


def scale_of(workload: KubeObject) -> JsonObject:
    """Return the ``autoscaling/v1`` Scale object of a workload."""
    copied = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = workload.spec.get("replicas", 1)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: workload.metadata[field] for field in copied},
        "spec": {"replicas": replicas} if replicas else {},  # the API server leaves 0 out
        "status": {
            "replicas": workload.status.get("replicas", 0),
            "selector": selector_string(workload.spec.get("selector") or {}),
        },
    }


def _with_scale(workload: KubeObject, scale: JsonObject) -> KubeObject:
    """Return a copy of ``workload`` with the replicas that a written Scale object requests."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 0:
        message = f"Invalid value: {replicas!r}: must be an integer greater than or equal to 0"
        raise invalid("Scale", workload.name, [("spec.replicas", message)])
    after = workload.copy()
    after.spec["replicas"] = replicas
    if given := (scale.get("metadata") or {}).get("resourceVersion"):
        after.metadata["resourceVersion"] = given
    return after
