"""Handle write requests: create, replace, patch and apply, for objects and subresources."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from lagbench.localkube.api_error import ApiError, bad_request, stale_version
from lagbench.localkube.merging import patch
from lagbench.localkube.merging.apply import apply, without_nulls
from lagbench.localkube.merging.managed_fields import Owner, record_update
from lagbench.localkube.objects import JsonObject, JsonValue, copy_of
from lagbench.localkube.storage.registry import Asked, Registry
from lagbench.localkube.storage.request_target import Target
from lagbench.localkube.storage.scale import scale_of, with_scale


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
        self._check_identity(target, body, needs_name=False)
        obj = copy_of(body)
        obj.setdefault("metadata", {}).pop("managedFields", None)
        record_update(
            None,
            obj,
            self._writer(target, options, "Update"),
            is_custom=target.resource.is_custom,
        )
        return self._registry.create(
            target.resource, obj, target.namespace, dry_run=options.dry_run, asked=options.asked
        )

    def replace(self, target: Target, body: JsonObject, options: WriteOptions) -> JsonObject:
        """Replace the object with ``body``."""
        if target.subresource == "scale":
            return self._write_scale(target, lambda _scale: body, options)
        self._check_identity(target, body, needs_name=True)
        return self._write(target, lambda _live: copy_of(body), options)

    def patch(
        self, target: Target, body: JsonValue, content_type: str, options: WriteOptions
    ) -> JsonObject:
        """Apply a patch of one of the four formats."""
        custom = target.resource.is_custom

        def change(live: JsonObject) -> JsonObject:
            return patch.patched(live, body, content_type, is_custom=custom)

        if content_type == patch.APPLY and target.subresource != "scale":
            return self._apply(target, body, options)
        if target.subresource == "scale":
            return self._write_scale(target, change, options)
        return self._write(target, change, options)

    def _write(
        self, target: Target, change: Callable[[JsonObject], JsonObject], options: WriteOptions
    ) -> JsonObject:
        live = self._registry.store.get(target.resource, target.namespace, target.name)
        changed = change(live)
        self._check_identity(target, changed, needs_name=True)
        after = self._taken_over(target, live, changed)
        record_update(
            live,
            after,
            self._writer(target, options, "Update"),
            is_custom=target.resource.is_custom,
        )
        return self._registry.update(
            target.resource, after, dry_run=options.dry_run, asked=options.asked
        )

    def _write_scale(
        self, target: Target, change: Callable[[JsonObject], JsonObject], options: WriteOptions
    ) -> JsonObject:
        live = self._registry.store.get(target.resource, target.namespace, target.name)
        after = with_scale(live, change(scale_of(live)))
        record_update(live, after, self._writer(target, options, "Update"), is_custom=False)
        return scale_of(self._registry.update(target.resource, after, dry_run=options.dry_run))

    def _apply(self, target: Target, body: JsonValue, options: WriteOptions) -> JsonObject:
        wanted = without_nulls(body)
        if not isinstance(wanted, dict):
            raise bad_request("an apply needs an object")
        wanted.setdefault("metadata", {}).setdefault("name", target.name)
        self._check_identity(target, wanted, needs_name=True)
        if wanted["metadata"].pop("managedFields", None):
            raise bad_request("metadata.managedFields must be nil")
        if not options.field_manager:
            raise bad_request("fieldManager is required for apply patch")
        if target.resource.has_status and not target.subresource:
            wanted.pop("status", None)
        resource, custom = target.resource, target.resource.is_custom
        live = self._registry.store.find(resource, target.namespace, target.name)
        writer = self._writer(target, options, "Apply")
        version = wanted["metadata"].pop("resourceVersion", None)
        if live is None:
            if version or target.subresource:
                live = self._registry.store.get(resource, target.namespace, target.name)
            created = apply(None, wanted, writer, force=options.force, is_custom=custom)
            return self._registry.create(
                resource, created, target.namespace, dry_run=options.dry_run, asked=options.asked
            )
        merged = apply(live, wanted, writer, force=options.force, is_custom=custom)
        after = self._taken_over(target, live, merged)
        after["metadata"]["managedFields"] = merged["metadata"].get("managedFields", [])
        if version:
            after["metadata"]["resourceVersion"] = version
        return self._registry.update(resource, after, dry_run=options.dry_run, asked=options.asked)

    def _taken_over(self, target: Target, live: JsonObject, changed: JsonObject) -> JsonObject:
        """Return the object as this write may change it: status only through its subresource."""
        version = (changed.get("metadata") or {}).get("resourceVersion")
        if version and version != live["metadata"]["resourceVersion"]:
            raise stale_version(target.resource.qualified_plural, target.name)
        if target.subresource == "status":
            after = copy_of(live)
            after.pop("status", None)
            if "status" in changed:
                after["status"] = changed["status"]
            return after
        if target.resource.has_status:
            changed.pop("status", None)
            if "status" in live:
                changed["status"] = copy_of(live["status"])
        return changed

    def _check_identity(self, target: Target, body: JsonObject, *, needs_name: bool) -> None:
        """Reject a body that describes another object than the path."""
        resource = target.resource
        if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
            raise bad_request("the body must be an object with metadata")
        for field, expected in (("kind", resource.kind), ("apiVersion", resource.api_version)):
            if body.get(field, expected) != expected:
                raise bad_request(
                    f"{field} {body[field]!r} in the body does not match the path ({expected!r})"
                )
        metadata = body.get("metadata", {})
        if needs_name and metadata.get("name", target.name) != target.name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL "
                f"({target.name})"
            )
        if resource.namespaced:
            if not target.namespace:
                raise ApiError(
                    405, "MethodNotAllowed", "the path of this request needs a namespace"
                )
            if metadata.get("namespace", target.namespace) != target.namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on "
                    "the request"
                )
            if needs_name:
                metadata["namespace"] = target.namespace
        if needs_name:
            metadata["name"] = target.name

    def _writer(self, target: Target, options: WriteOptions, operation: str) -> Owner:
        return Owner(
            manager=options.field_manager,
            operation=operation,
            subresource=target.subresource,
            fields=frozenset(),
            api_version=target.resource.api_version,
            at=self._registry.now(),
        )
