"""Keep the objects in memory, give every change a resourceVersion, and notify listeners.

Everything runs on one event loop, so operations are never interleaved: a read followed
by a write without an ``await`` between them is atomic.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from localkube.kinds import Resource, Target
from localkube.kube_objects import (
    ApiError,
    JsonObject,
    KubeObject,
    Matcher,
    already_exists,
    conflict,
    not_found,
)

# A run of an hour with 24 pods makes about 4,000 changes; a watch that resumes is seconds behind.
_HISTORY_LENGTH = 5_000
# A client that has not read this many changes is stuck; its stream ends, and it can list again.
_BACKLOG_LIMIT = 10_000
STALE = "the object has been modified; please apply your changes to the latest version"


@dataclass(frozen=True)
class Change:
    """One change of one object; ``kind`` is ADDED, MODIFIED or DELETED."""

    kind: str
    resource: Resource
    obj: KubeObject
    previous: KubeObject | None
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
        self._objects: dict[Resource, dict[tuple[str, str], KubeObject]] = {}
        self.version = self._oldest_version = first_version
        self._history: deque[Change] = deque(maxlen=_HISTORY_LENGTH)
        self._listeners: list[Listener] = []

    def get(self, resource: Resource, namespace: str, name: str) -> KubeObject:
        """Return one object, which must not be changed; raise the API's 404 if it is absent."""
        found = self.find(resource, namespace, name)
        if found is None:
            raise not_found(resource.qualified_plural, name)
        return found

    def find(self, resource: Resource, namespace: str, name: str) -> KubeObject | None:
        """Return one object, or None."""
        return self._objects.get(resource, {}).get((namespace, name))

    def select(self, resource: Resource, namespace: str = "") -> list[KubeObject]:
        """Return a kind's objects by namespace and name; all namespaces when it is empty."""
        held = self._objects.get(resource, {})
        return [held[key] for key in sorted(held) if not namespace or key[0] == namespace]

    def everything(self) -> Iterator[tuple[Resource, KubeObject]]:
        """Yield all objects of all kinds."""
        for resource, held in list(self._objects.items()):
            for obj in list(held.values()):
                yield resource, obj

    def insert(self, resource: Resource, obj: KubeObject) -> KubeObject:
        """Add a new object; the store owns it from now on."""
        held = self._objects.setdefault(resource, {})
        if obj.key in held:
            raise already_exists(resource.qualified_plural, obj.name)
        held[obj.key] = obj
        self._publish("ADDED", resource, obj, None)
        return obj

    def replace(self, resource: Resource, obj: KubeObject) -> KubeObject:
        """Replace the stored object with ``obj``; writing an equal object changes nothing.

        The resourceVersion in ``obj`` must be the current one, or absent.
        """
        before = self.get(resource, *obj.key)
        given, present = obj.metadata.get("resourceVersion"), before.metadata["resourceVersion"]
        if given and given != present:
            raise conflict(resource.qualified_plural, obj.name, STALE)
        obj.metadata["resourceVersion"] = present
        if obj == before:
            return before
        self._objects[resource][obj.key] = obj
        self._publish("MODIFIED", resource, obj, before)
        return obj

    def remove(self, resource: Resource, namespace: str, name: str) -> KubeObject:
        """Remove an object and return its last state."""
        before = self.get(resource, namespace, name)
        del self._objects[resource][before.key]
        last = KubeObject({**before, "metadata": dict(before.metadata)})
        self._publish("DELETED", resource, last, before)
        return last

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` after every change; return what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def changes_since(self, version: int) -> list[Change] | None:
        """Return the changes after ``version``; None if the history no longer has all of them."""
        if version < self._oldest_version:
            return None
        return [change for change in self._history if change.version > version]

    def _publish(
        self, kind: str, resource: Resource, obj: KubeObject, previous: KubeObject | None
    ) -> None:
        self.version += 1
        obj.metadata["resourceVersion"] = str(self.version)
        change = Change(kind, resource, obj, previous, self.version)
        if len(self._history) == self._history.maxlen:
            self._oldest_version = self._history[0].version
        self._history.append(change)
        for listener in list(self._listeners):
            listener(change)


@dataclass(frozen=True, slots=True)
class Selection:
    """The target of a watch, and the form in which its objects are shown (None: unchanged)."""

    target: Target
    matches: Matcher
    present: Callable[[KubeObject], JsonObject] | None = None

    def event(self, change: Change) -> bytes | None:
        """Return a change as the watcher sees it, None if the watcher does not see it.

        An object that starts to match is ADDED; one that no longer matches is DELETED.
        """
        place = self.target.namespace
        if change.resource != self.target.resource or place not in ("", change.obj.namespace):
            return None
        was_in = change.previous is not None and self.matches(change.previous)
        is_in = change.kind != "DELETED" and self.matches(change.obj)
        if not was_in and not is_in:
            return None
        kind = "MODIFIED" if was_in and is_in else "ADDED" if is_in else "DELETED"
        return _line(kind, self._shown(change.obj) if self.present else change.encoded)

    def _shown(self, obj: KubeObject) -> bytes:
        return json.dumps(self.present(obj) if self.present else obj).encode()

    def since(self, store: Store, version: str) -> list[bytes] | None:
        """Return the events since ``version``; None if the history no longer has them.

        Without a version (or from 0) these are the existing objects, as ADDED.
        """
        if version in {"", "0"}:
            objects = store.select(self.target.resource, self.target.namespace)
            return [_line("ADDED", self._shown(obj)) for obj in objects if self.matches(obj)]
        changes = store.changes_since(int(version))
        if changes is None:
            return None
        return [line for line in map(self.event, changes) if line is not None]


class Watches:
    """All open watch streams, so that a stop can end them."""

    def __init__(self, store: Store) -> None:
        """Watch ``store``."""
        self._store = store
        self._queues: set[asyncio.Queue[bytes | None]] = set()

    def end_all(self) -> None:
        """End every stream, after what is already in its queue."""
        for queue in self._queues:
            queue.put_nowait(None)

    async def stream(
        self, selection: Selection, *, from_version: str, timeout_seconds: float | None
    ) -> AsyncIterator[bytes]:
        """Yield watch events, one JSON line each."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()

        def listen(change: Change) -> None:
            if queue.qsize() >= _BACKLOG_LIMIT:
                queue.put_nowait(None)
            elif (seen := selection.event(change)) is not None:
                queue.put_nowait(seen)

        # No await between reading the store and subscribing: no change is missed.
        first = selection.since(self._store, from_version)
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
            with contextlib.suppress(TimeoutError):
                while (seen := await _next(queue, ends_at)) is not None:
                    yield seen
        finally:
            unsubscribe()
            self._queues.discard(queue)


async def _next(queue: asyncio.Queue[bytes | None], ends_at: float | None) -> bytes | None:
    async with asyncio.timeout_at(ends_at):
        return await queue.get()


def _line(kind: str, encoded: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), encoded)
