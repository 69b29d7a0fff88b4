"""Write Events about objects, with the reasons that Kubernetes uses, and remove old ones."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from localkube.kinds import EVENT
from localkube.kube_objects import ApiError, KubeObject
from localkube.storage.object_registry import Registry
from localkube.storage.object_store import Change, Store

# Events expire after an hour. This limit bounds the memory of a burst, too.
_KEPT_EVENTS = 2_000
KEPT_SECONDS = 3600.0
_LOOK_SECONDS = 60.0


class EventRecorder:
    """Records what happened to objects; a repetition raises the count of the earlier event."""

    def __init__(self, registry: Registry, *, source: str) -> None:
        """Record on behalf of the component ``source``."""
        self._registry, self._source = registry, source
        self._keys: OrderedDict[tuple[str, str, str], tuple[str, str]] = OrderedDict()

    def record(self, about: KubeObject, severity: str, reason: str, message: str) -> None:
        """Record an event: ``Normal``, or a ``Warning`` that needs attention."""
        namespace, now = about.namespace or "default", self._registry.now()
        what = (about.uid, reason, message)

        def repeat(event: KubeObject) -> None:
            event["count"] = event.get("count", 1) + 1
            event["lastTimestamp"] = now

        known = self._keys.get(what)
        if known and self._registry.change(EVENT, *known, repeat) is not None:
            return
        event = {
            "metadata": {"name": f"{about.name}.{self._registry.now_ns():x}"},
            "involvedObject": {
                "kind": about["kind"],
                "namespace": namespace,
                "name": about.name,
                "uid": about.uid,
                "apiVersion": about["apiVersion"],
                "resourceVersion": about.metadata["resourceVersion"],
            },
            "reason": reason,
            "message": message,
            "type": severity,
            "source": {"component": self._source},
            "reportingComponent": self._source,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self._keys[what] = self._registry.create(EVENT, event, namespace).key
        except ApiError as error:
            if error.code != 404:  # the namespace is deleted: nobody can read the event
                raise
        while len(self._keys) > _KEPT_EVENTS:
            _, oldest = self._keys.popitem(last=False)
            if self._registry.store.find(EVENT, *oldest) is not None:
                self._registry.store.remove(EVENT, *oldest)


class EventExpiry:
    """Removes each Event an hour after its last change, as an API server does (``--event-ttl``).

    Clients write events too, and a text that changes makes another event each time.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Follow ``store`` from before its first event on."""
        self._store, self._clock = store, clock
        self._written_at: OrderedDict[tuple[str, str], float] = OrderedDict()  # the oldest first
        store.subscribe(self._on_change)

    async def keep_expiring(self) -> None:
        """Remove what has expired at a fixed interval."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.expire()

    def expire(self) -> None:
        """Remove the events whose last write was an hour ago."""
        written_before = self._clock() - KEPT_SECONDS
        for key, written_at in list(self._written_at.items()):
            if written_at > written_before:
                return
            self._store.remove(EVENT, *key)

    def _on_change(self, change: Change) -> None:
        if change.resource == EVENT:
            self._written_at.pop(change.obj.key, None)
            if change.kind != "DELETED":
                self._written_at[change.obj.key] = self._clock()
