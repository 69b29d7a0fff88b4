"""Keep the objects in memory, give every change a resourceVersion, and notify listeners.

Everything runs on one event loop, so operations are never interleaved: a read followed
by a write without an ``await`` between them is atomic.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from lagbench.localkube.api_error import already_exists, conflict, not_found
from lagbench.localkube.objects import JsonObject, name_of, namespace_of
from lagbench.localkube.storage.resources import Resource

# A run of an hour with 24 pods makes about 4,000 changes; a watch that resumes is seconds behind.
_HISTORY_LENGTH = 5_000
STALE = "the object has been modified; please apply your changes to the latest version"


@dataclass(frozen=True)
class Change:
    """One change of one object; ``kind`` is ADDED, MODIFIED or DELETED."""

    kind: str
    resource: Resource
    obj: JsonObject
    previous: JsonObject | None
    version: int

    @cached_property
    def encoded(self) -> bytes:
        """The object as JSON, encoded once for all watches."""
        return json.dumps(self.obj, separators=(",", ":")).encode()


Listener: TypeAlias = Callable[[Change], None]


class Store:
    """All objects of the cluster and the recent history of their changes."""

    def __init__(self, *, first_version: int = 1) -> None:
        """Start empty; versions count up from ``first_version``."""
        self._objects: dict[Resource, dict[tuple[str, str], JsonObject]] = {}
        self._version = first_version
        self._history: deque[Change] = deque(maxlen=_HISTORY_LENGTH)
        self._oldest_version = first_version
        self._listeners: list[Listener] = []

    @property
    def version(self) -> int:
        """The resourceVersion of the latest change."""
        return self._version

    def get(self, resource: Resource, namespace: str, name: str) -> JsonObject:
        """Return one object, which must not be changed; raise the API's 404 if it is absent."""
        found = self.find(resource, namespace, name)
        if found is None:
            raise not_found(resource.qualified_plural, name)
        return found

    def find(self, resource: Resource, namespace: str, name: str) -> JsonObject | None:
        """Return one object, or None."""
        return self._objects.get(resource, {}).get((namespace, name))

    def select(self, resource: Resource, namespace: str = "") -> list[JsonObject]:
        """Return a kind's objects by namespace and name; all namespaces when it is empty."""
        held = self._objects.get(resource, {})
        return [held[key] for key in sorted(held) if not namespace or key[0] == namespace]

    def everything(self) -> Iterator[tuple[Resource, JsonObject]]:
        """Yield all objects of all kinds."""
        for resource, held in list(self._objects.items()):
            for obj in list(held.values()):
                yield resource, obj

    def insert(self, resource: Resource, obj: JsonObject) -> JsonObject:
        """Add a new object; the store owns it from now on."""
        key = (namespace_of(obj), name_of(obj))
        held = self._objects.setdefault(resource, {})
        if key in held:
            raise already_exists(resource.qualified_plural, name_of(obj))
        self._stamp(obj)
        held[key] = obj
        self._publish("ADDED", resource, obj, None)
        return obj

    def replace(self, resource: Resource, obj: JsonObject) -> JsonObject:
        """Replace the stored object with ``obj``; writing an equal object changes nothing.

        The resourceVersion in ``obj`` must be the current one, or absent.
        """
        key = (namespace_of(obj), name_of(obj))
        before = self.get(resource, *key)
        given = obj["metadata"].get("resourceVersion")
        if given and given != before["metadata"]["resourceVersion"]:
            raise conflict(resource.qualified_plural, name_of(obj), STALE)
        obj["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
        if obj == before:
            return before
        self._stamp(obj)
        self._objects[resource][key] = obj
        self._publish("MODIFIED", resource, obj, before)
        return obj

    def remove(self, resource: Resource, namespace: str, name: str) -> JsonObject:
        """Remove an object and return its last state."""
        before = self.get(resource, namespace, name)
        del self._objects[resource][(namespace, name)]
        last = {**before, "metadata": dict(before["metadata"])}
        self._stamp(last)
        self._publish("DELETED", resource, last, before)
        return last

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` on every change, in order; return the function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def changes_since(self, version: int) -> list[Change] | None:
        """Return the changes after ``version``; None if the history does not reach back to it."""
        if version < self._oldest_version:
            return None
        return [change for change in self._history if change.version > version]

    def _stamp(self, obj: JsonObject) -> None:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)

    def _publish(
        self, kind: str, resource: Resource, obj: JsonObject, previous: JsonObject | None
    ) -> None:
        change = Change(kind, resource, obj, previous, self._version)
        if len(self._history) == _HISTORY_LENGTH:
            self._oldest_version = self._history[0].version
        self._history.append(change)
        for listener in list(self._listeners):
            listener(change)
