"""Delete objects and their dependents."""

from __future__ import annotations

from localkube.kinds import EVENT, NAMESPACE, POD, Resource
from localkube.kube_objects import JsonObject, KubeObject, bad_request, conflict
from localkube.storage.object_registry import Registry
from localkube.storage.object_store import Change

_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
_FINALIZERS = {"Background": None, "Foreground": _FOREGROUND, "Orphan": _ORPHAN}


class Deletion:
    """Carries out delete requests, cascades by owner reference, and empties namespaces."""

    def __init__(self, registry: Registry) -> None:
        """Follow removals in the registry's store."""
        self._registry = registry
        self._store = registry.store
        self._store.subscribe(self._on_change)

    def delete(
        self, resource: Resource, obj: KubeObject, options: JsonObject | None = None
    ) -> KubeObject | None:
        """Start or finish the deletion of an object; ``obj`` may be an older state of it.

        Return its state if it stays for a while (grace period, finalizers), None if it is removed.
        """
        options = options or {}
        now = self._store.find(resource, *obj.key)
        if now is None or now.uid != obj.uid:
            return None
        for field, wanted in (options.get("preconditions") or {}).items():
            if wanted and wanted != now.metadata.get(field):
                why = f"Precondition failed: {field} is {now.metadata.get(field)}, not {wanted}"
                raise conflict(resource.qualified_plural, now.name, why)
        if resource == NAMESPACE:
            return self._delete_namespace(now)
        if resource == POD:
            return self._delete_pod(now, options.get("gracePeriodSeconds"))
        usual = "Orphan" if options.get("orphanDependents") else "Background"
        given = options.get("propagationPolicy") or usual
        if given not in _FINALIZERS:
            raise bad_request(f"propagationPolicy {given!r}: {', '.join(_FINALIZERS)}")
        hold = _FINALIZERS[given]
        if hold and hold not in now.finalizers:
            now = now.copy()
            now.metadata["finalizers"] = [*now.finalizers, hold]
            now = self._store.replace(resource, now)
        if now.finalizers:
            self._work_off_finalizers(resource, self._registry.mark_deleted(resource, now, 0))
            return self._store.find(resource, *now.key)
        self._store.remove(resource, *now.key)
        return None

    def _delete_pod(self, pod: KubeObject, grace_seconds: object) -> KubeObject | None:
        if grace_seconds is None:
            grace_seconds = pod.spec.get("terminationGracePeriodSeconds", 30)
        if not isinstance(grace_seconds, int) or grace_seconds < 0:
            raise bad_request(f"gracePeriodSeconds must be a whole number >= 0: {grace_seconds!r}")
        seconds = 0 if pod.has_ended else grace_seconds
        marked = self._registry.mark_deleted(POD, pod, seconds)
        if seconds == 0 and not pod.finalizers:
            self._store.remove(POD, *pod.key)
            return None
        return marked

    def _delete_namespace(self, namespace: KubeObject) -> KubeObject | None:
        after = self._registry.mark_deleted(NAMESPACE, namespace, 0).copy()
        after["status"] = {**after.status, "phase": "Terminating"}
        self._store.replace(NAMESPACE, after)
        for resource, obj in self._store.everything():
            if obj.namespace == namespace.name and not obj.is_terminating:
                self.delete(resource, obj)
        self._remove_namespace_if_empty(namespace.name)
        return self._store.find(NAMESPACE, "", namespace.name)

    def _on_change(self, change: Change) -> None:
        gone = change.obj
        if change.kind != "DELETED" or change.resource == EVENT:
            return
        if gone.namespace:
            self._remove_namespace_if_empty(gone.namespace)
        for resource, obj in self._dependents(gone):
            if not obj.is_terminating and not self._release(resource, obj, gone):
                self.delete(resource, obj)
        owners = {reference["uid"] for reference in gone.owners}
        for kind, owner in self._store.everything() if owners else ():
            if owner.uid in owners and owner.is_terminating:
                self._work_off_finalizers(kind, owner)

    def _dependents(self, owner: KubeObject) -> list[tuple[Resource, KubeObject]]:
        """Return the objects that name the owner."""
        return [
            (resource, obj)
            for resource, obj in self._store.everything()
            if any(reference["uid"] == owner.uid for reference in obj.owners)
        ]

    def _release(
        self, resource: Resource, obj: KubeObject, owner: KubeObject, *, last: bool = False
    ) -> bool:
        """Remove an owner; False: it is the last one, which stays unless ``last``."""
        left = [reference for reference in obj.owners if reference["uid"] != owner.uid]
        if not left and not last:
            return False

        def edit(fresh: KubeObject) -> None:
            fresh.metadata["ownerReferences"] = left

        self._registry.change(resource, *obj.key, edit)
        return True

    def _work_off_finalizers(self, resource: Resource, owner: KubeObject) -> None:
        """Carry out the two built-in finalizers; foreign ones are removed by their owners."""
        dependents, done = self._dependents(owner), None
        if _ORPHAN in owner.finalizers:
            for kind, obj in dependents:
                self._release(kind, obj, owner, last=True)
            done = _ORPHAN
        elif _FOREGROUND in owner.finalizers:
            for kind, obj in dependents:
                if not obj.is_terminating:
                    self.delete(kind, obj)
            done = None if dependents else _FOREGROUND
        if done:
            after = self._store.get(resource, *owner.key).copy()
            after.metadata["finalizers"] = [held for held in after.finalizers if held != done]
            self._registry.update(resource, after)

    def _remove_namespace_if_empty(self, name: str) -> None:
        namespace = self._store.find(NAMESPACE, "", name)
        if namespace is None or not namespace.is_terminating:
            return
        inside = [(kind, obj) for kind, obj in self._store.everything() if obj.namespace == name]
        if any(kind != EVENT for kind, _ in inside):
            return
        for kind, event in inside:
            self._store.remove(kind, *event.key)
        self._store.remove(NAMESPACE, "", name)
