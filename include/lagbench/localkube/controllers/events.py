"""Write Events about objects, with the reasons that Kubernetes uses."""

from __future__ import annotations

from collections import OrderedDict

from lagbench.localkube.api_error import ApiError
from lagbench.localkube.objects import JsonObject, name_of, namespace_of, uid_of
from lagbench.localkube.storage.registry import Registry
from lagbench.localkube.storage.resources import EVENT

# Events expire after an hour (``event_expiry``). This limit bounds the memory of a burst, too.
_KEPT_EVENTS = 2_000


class EventRecorder:
    """Records what happened to objects; a repetition raises the count of the earlier event."""

    def __init__(self, registry: Registry, *, source: str) -> None:
        """Record on behalf of the component ``source``."""
        self._registry, self._source = registry, source
        self._names: OrderedDict[tuple[str, str, str], tuple[str, str]] = OrderedDict()

    def normal(self, about: JsonObject, reason: str, message: str) -> None:
        """Record an expected step."""
        self._record(about, "Normal", reason, message)

    def warning(self, about: JsonObject, reason: str, message: str) -> None:
        """Record an event that needs attention."""
        self._record(about, "Warning", reason, message)

    def _record(self, about: JsonObject, severity: str, reason: str, message: str) -> None:
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
