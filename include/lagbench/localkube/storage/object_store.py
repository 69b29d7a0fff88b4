"""Keep the objects in memory, give every change a resourceVersion, and notify listeners.

Everything runs on one event loop, so operations are never interleaved: a read followed
by a write without an ``await`` between them is atomic.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from lagbench.localkube.kube_objects import (
    ApiError,
    JsonObject,
    already_exists,
    conflict,
    name_of,
    namespace_of,
    not_found,
)
from lagbench.localkube.storage.resources import Resource, Target
from lagbench.localkube.storage.selectors import Matcher

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


# A client that has not read this many changes is stuck; its stream ends, and it can list again.
_BACKLOG_LIMIT = 10_000

Presentation: TypeAlias = Callable[[JsonObject], JsonObject]


@dataclass(frozen=True, slots=True)
class Selection:
    """The target of a watch, and the form in which its objects are shown (None: unchanged)."""

    target: Target
    matches: Matcher
    present: Presentation | None = None

    def concerns(self, change: Change) -> bool:
        """Return whether a change is of the right kind and namespace."""
        return change.resource == self.target.resource and (
            not self.target.namespace or namespace_of(change.obj) == self.target.namespace
        )

    def event(self, change: Change) -> bytes | None:
        """Return a change as the watcher sees it, None if the watcher does not see it.

        An object that starts to match is ADDED; one that no longer matches is DELETED.
        """
        was_in = change.previous is not None and self.matches(change.previous)
        is_in = change.kind != "DELETED" and self.matches(change.obj)
        if not was_in and not is_in:
            return None
        kind = "MODIFIED" if was_in and is_in else "ADDED" if is_in else "DELETED"
        return _line(kind, self._shown(change.obj) if self.present else change.encoded)

    def _shown(self, obj: JsonObject) -> bytes:
        return json.dumps(self.present(obj) if self.present else obj).encode()

    def present_state(self, objects: Iterable[JsonObject]) -> list[bytes]:
        """Return existing objects as events."""
        return [_line("ADDED", self._shown(obj)) for obj in objects if self.matches(obj)]


class Watches:
    """All open watch streams, so that a stop can end them."""

    def __init__(self, store: Store) -> None:
        """Watch ``store``."""
        self._store = store
        self._queues: set[asyncio.Queue[Change | None]] = set()

    def end_all(self) -> None:
        """End every stream, after what is already in its queue."""
        for queue in self._queues:
            queue.put_nowait(None)

    async def stream(
        self, selection: Selection, *, from_version: str, timeout_seconds: float | None
    ) -> AsyncIterator[bytes]:
        """Yield watch events, one JSON line each.

        Without ``from_version`` (or from 0) the existing objects come first, as ADDED.
        """
        queue: asyncio.Queue[Change | None] = asyncio.Queue()

        def listen(change: Change) -> None:
            if queue.qsize() >= _BACKLOG_LIMIT:
                queue.put_nowait(None)
            elif selection.concerns(change):
                queue.put_nowait(change)

        # No await between reading the store and subscribing: no change is missed.
        first = self._missed(selection, from_version)
        self._queues.add(queue)
        unsubscribe = self._store.subscribe(listen)
        ends_at = asyncio.get_running_loop().time() + timeout_seconds if timeout_seconds else None
        try:
            if first is None:
                gone = ApiError(410, "Expired", f"too old resource version: {from_version}")
                yield _line("ERROR", json.dumps(gone.status()).encode())
                return
            for line in first:
                yield line
            while (change := await _next(queue, ends_at)) is not None:
                if (seen := selection.event(change)) is not None:
                    yield seen
        finally:
            unsubscribe()
            self._queues.discard(queue)

    def _missed(self, selection: Selection, from_version: str) -> list[bytes] | None:
        """Return the events since ``from_version``; None if the history no longer has them."""
        if from_version in {"", "0"}:
            target = selection.target
            return selection.present_state(self._store.select(target.resource, target.namespace))
        changes = self._store.changes_since(int(from_version))
        if changes is None:
            return None
        seen = (selection.event(change) for change in changes if selection.concerns(change))
        return [line for line in seen if line is not None]


async def _next(queue: asyncio.Queue[Change | None], ends_at: float | None) -> Change | None:
    """Return the next change, None at the end of the stream."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(ends_at):
            return await queue.get()
    return None


def _line(kind: str, encoded: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), encoded)
