"""Write Events about objects, with the reasons that Kubernetes uses, and remove old ones."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from lagbench.localkube.kube_objects import ApiError, JsonObject, name_of, namespace_of, uid_of
from lagbench.localkube.storage.object_registry import Registry
from lagbench.localkube.storage.object_store import Change, Store
from lagbench.localkube.storage.resources import EVENT

# Events expire after an hour. This limit bounds the memory of a burst, too.
_KEPT_EVENTS = 2_000
KEPT_SECONDS = 3600.0
_LOOK_SECONDS = 60.0


class EventRecorder:
    """Records what happened to objects; a repetition raises the count of the earlier event."""

    def __init__(self, registry: Registry, *, source: str) -> None:
        """Record on behalf of the component ``source``."""
        self._registry, self._source = registry, source
        self._names: OrderedDict[tuple[str, str, str], tuple[str, str]] = OrderedDict()

    def normal(self, about: JsonObject, reason: str, message: str) -> None:
        """Record an expected step."""
        self.record(about, "Normal", reason, message)

    def warning(self, about: JsonObject, reason: str, message: str) -> None:
        """Record an event that needs attention."""
        self.record(about, "Warning", reason, message)

    def record(self, about: JsonObject, severity: str, reason: str, message: str) -> None:
        """Record an event."""
        namespace = namespace_of(about) or "default"
        now = self._registry.now()
        key = (uid_of(about), reason, message)
        known = self._names.get(key)

        def repeat(event: JsonObject) -> None:
            event["count"] = event.get("count", 1) + 1
            event["lastTimestamp"] = now

        if known and self._registry.change(EVENT, *known, repeat) is not None:
            return
        event_name = f"{name_of(about)}.{self._registry.now_ns():x}"
        event: JsonObject = {
            "metadata": {"name": event_name},
            "involvedObject": {
                "kind": about["kind"],
                "namespace": namespace,
                "name": name_of(about),
                "uid": uid_of(about),
                "apiVersion": about["apiVersion"],
                "resourceVersion": about["metadata"]["resourceVersion"],
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
            self._registry.create(EVENT, event, namespace)
        except ApiError as error:
            if error.code != 404:  # the namespace is deleted: nobody can read the event
                raise
            return
        self._names[key] = (namespace, event_name)
        while len(self._names) > _KEPT_EVENTS:
            _, (place, name) = self._names.popitem(last=False)
            if self._registry.store.find(EVENT, place, name) is not None:
                self._registry.store.remove(EVENT, place, name)


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
        for place, written_at in list(self._written_at.items()):
            if written_at > written_before:
                return
            self._store.remove(EVENT, *place)

    def _on_change(self, change: Change) -> None:
        if change.resource != EVENT:
            return
        place = (namespace_of(change.obj), name_of(change.obj))
        self._written_at.pop(place, None)
        if change.kind != "DELETED":
            self._written_at[place] = self._clock()
