"""Delete objects and their dependents."""

from __future__ import annotations

from lagbench.localkube.kube_objects import (
    JsonObject,
    bad_request,
    conflict,
    copy_of,
    is_terminating,
    name_of,
    namespace_of,
    uid_of,
)
from lagbench.localkube.storage.object_registry import FOREGROUND, ORPHAN, Registry
from lagbench.localkube.storage.object_store import Change
from lagbench.localkube.storage.resources import EVENT, NAMESPACE, POD, TABLE, Resource

_BY_KIND = {(row.api_version, row.kind): row for row in TABLE}


class Deletion:
    """Carries out delete requests, cascades by owner reference, and empties namespaces."""

    def __init__(self, registry: Registry) -> None:
        """Follow removals in the registry's store."""
        self._registry = registry
        self._store = registry.store
        self._store.subscribe(self._on_change)

    def delete(
        self, resource: Resource, obj: JsonObject, options: JsonObject | None = None
    ) -> JsonObject | None:
        """Start or finish the deletion of an object; ``obj`` may be an older state of it.

        Return its state if it stays for a while (grace period, finalizers), None if it is removed.
        """
        options = options or {}
        now = self._store.find(resource, namespace_of(obj), name_of(obj))
        if now is None or uid_of(now) != uid_of(obj):
            return None
        obj = now
        for field, wanted in (options.get("preconditions") or {}).items():
            if wanted and wanted != obj["metadata"].get(field):
                why = f"Precondition failed: {field} is {obj['metadata'].get(field)}, not {wanted}"
                raise conflict(resource.qualified_plural, name_of(obj), why)
        if resource == NAMESPACE:
            return self._delete_namespace(obj)
        if resource == POD:
            return self._delete_pod(obj, options.get("gracePeriodSeconds"))
        hold = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(_propagation(options))
        if hold and hold not in (obj["metadata"].get("finalizers") or ()):
            after = copy_of(obj)
            after["metadata"].setdefault("finalizers", []).append(hold)
            obj = self._store.replace(resource, after)
        if obj["metadata"].get("finalizers"):
            marked = self._registry.mark_deleted(resource, obj, 0)
            self._work_off_finalizers(resource, marked)
            return self._store.find(resource, namespace_of(obj), name_of(obj))
        self._store.remove(resource, namespace_of(obj), name_of(obj))
        return None

    def _delete_pod(self, pod: JsonObject, grace_seconds: object) -> JsonObject | None:
        if grace_seconds is None:
            grace_seconds = pod["spec"].get("terminationGracePeriodSeconds", 30)
        if not isinstance(grace_seconds, int) or grace_seconds < 0:
            raise bad_request(f"gracePeriodSeconds must be a whole number >= 0: {grace_seconds!r}")
        has_ended = pod["status"].get("phase") in ("Succeeded", "Failed")
        marked = self._registry.mark_deleted(POD, pod, 0 if has_ended else grace_seconds)
        if (grace_seconds == 0 or has_ended) and not pod["metadata"].get("finalizers"):
            self._store.remove(POD, namespace_of(pod), name_of(pod))
            return None
        return marked

    def _delete_namespace(self, namespace: JsonObject) -> JsonObject | None:
        after = copy_of(self._registry.mark_deleted(NAMESPACE, namespace, 0))
        after["status"] = {**after.get("status", {}), "phase": "Terminating"}
        self._store.replace(NAMESPACE, after)
        for resource, obj in self._store.everything():
            if namespace_of(obj) == name_of(namespace) and not is_terminating(obj):
                self.delete(resource, obj)
        self._remove_namespace_if_empty(name_of(namespace))
        return self._store.find(NAMESPACE, "", name_of(namespace))

    def _on_change(self, change: Change) -> None:
        if change.kind != "DELETED" or change.resource == EVENT:
            return
        namespace = namespace_of(change.obj)
        if namespace:
            self._remove_namespace_if_empty(namespace)
        gone = uid_of(change.obj)
        for resource, obj in self._dependents(gone):
            if not is_terminating(obj) and not self._release(resource, obj, gone):
                self.delete(resource, obj)
        for reference in change.obj["metadata"].get("ownerReferences") or ():
            kind = _BY_KIND.get((reference["apiVersion"], reference["kind"]))
            owner = self._store.find(kind, namespace, reference["name"]) if kind else None
            is_same = owner is not None and uid_of(owner) == reference["uid"]
            if kind is not None and owner is not None and is_same and is_terminating(owner):
                self._work_off_finalizers(kind, owner)

    def _dependents(self, uid: str) -> list[tuple[Resource, JsonObject]]:
        """Return the objects that name the owner."""
        return [
            (resource, obj)
            for resource, obj in self._store.everything()
            if any(ref["uid"] == uid for ref in obj["metadata"].get("ownerReferences") or ())
        ]

    def _release(
        self, resource: Resource, obj: JsonObject, owner: str, *, last: bool = False
    ) -> bool:
        """Remove an owner; False: it is the last one, which stays unless ``last``."""
        left = [ref for ref in obj["metadata"]["ownerReferences"] if ref["uid"] != owner]
        if not left and not last:
            return False

        def edit(fresh: JsonObject) -> None:
            fresh["metadata"]["ownerReferences"] = left

        self._registry.change(resource, namespace_of(obj), name_of(obj), edit)
        return True

    def _work_off_finalizers(self, resource: Resource, owner: JsonObject) -> None:
        """Carry out the two built-in finalizers; foreign ones are removed by their owners."""
        finalizers = owner["metadata"].get("finalizers") or []
        dependents = self._dependents(uid_of(owner))
        if ORPHAN in finalizers:
            for kind, obj in dependents:
                self._release(kind, obj, uid_of(owner), last=True)
            self._drop_finalizer(resource, owner, ORPHAN)
        elif FOREGROUND in finalizers:
            for kind, obj in dependents:
                if not is_terminating(obj):
                    self.delete(kind, obj)
            if not dependents:
                self._drop_finalizer(resource, owner, FOREGROUND)

    def _drop_finalizer(self, resource: Resource, owner: JsonObject, finalizer: str) -> None:
        after = copy_of(self._store.get(resource, namespace_of(owner), name_of(owner)))
        after["metadata"]["finalizers"] = [
            held for held in after["metadata"].get("finalizers", ()) if held != finalizer
        ]
        self._registry.update(resource, after)

    def _remove_namespace_if_empty(self, name: str) -> None:
        namespace = self._store.find(NAMESPACE, "", name)
        if namespace is None or not is_terminating(namespace):
            return
        inside = [(kind, o) for kind, o in self._store.everything() if namespace_of(o) == name]
        if any(kind != EVENT for kind, _ in inside):
            return
        for kind, event in inside:
            self._store.remove(kind, name, name_of(event))
        self._store.remove(NAMESPACE, "", name)


def _propagation(options: JsonObject) -> str:
    given = options.get("propagationPolicy")
    if given is None:
        return "Orphan" if options.get("orphanDependents") else "Background"
    if given not in ("Background", "Foreground", "Orphan"):
        raise bad_request(f"propagationPolicy {given!r}: Background, Foreground or Orphan")
    return str(given)
