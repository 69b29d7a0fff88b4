"""Stream the changes of a kind to a client."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from lagbench.localkube.api_error import ApiError
from lagbench.localkube.objects import JsonObject, namespace_of
from lagbench.localkube.storage.resources import Target
from lagbench.localkube.storage.selectors import Matcher
from lagbench.localkube.storage.store import Change, Store

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
