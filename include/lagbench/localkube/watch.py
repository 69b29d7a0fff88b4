"""Stream the changes of a kind to a client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from lagbench.localkube.api_error import expired
from lagbench.localkube.objects import JsonObject, namespace_of
from lagbench.localkube.request_target import Target
from lagbench.localkube.selectors import Matcher
from lagbench.localkube.store import Change, Store

# A client that has not read this many changes is stuck; its stream ends, and it can list again.
_BACKLOG_LIMIT = 10_000


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
        self,
        target: Target,
        matches: Matcher,
        *,
        from_version: str,
        timeout_seconds: float | None,
        present: Callable[[JsonObject], JsonObject] | None,
    ) -> AsyncIterator[bytes]:
        """Yield watch events, one JSON line each.

        Without ``from_version`` (or from 0) the present objects come first, as ADDED. ``present``
        turns an object into another representation (a Table).
        """
        queue: asyncio.Queue[Change | None] = asyncio.Queue()
        resource, namespace = target.resource, target.namespace

        def concerns(change: Change) -> bool:
            return change.resource == resource and (
                not namespace or namespace_of(change.obj) == namespace
            )

        def listen(change: Change) -> None:
            if queue.qsize() >= _BACKLOG_LIMIT:
                queue.put_nowait(None)
            elif concerns(change):
                queue.put_nowait(change)

        # No await between the first look at the store and the subscription: nothing is missed.
        if from_version in ("", "0"):
            first = [
                _line("ADDED", json.dumps(present(obj) if present else obj).encode())
                for obj in self._store.list(resource, namespace)
                if matches(obj)
            ]
        else:
            missed = self._store.changes_since(int(from_version))
            if missed is None:
                yield _line("ERROR", json.dumps(expired(from_version).status()).encode())
                return
            lines = (_event(c, matches, present) for c in missed if concerns(c))
            first = [line for line in lines if line is not None]
        self._queues.add(queue)
        unsubscribe = self._store.subscribe(listen)
        try:
            for line in first:
                yield line
            loop = asyncio.get_running_loop()
            ends_at = loop.time() + timeout_seconds if timeout_seconds else None
            while True:
                async with asyncio.timeout_at(ends_at):
                    change = await queue.get()
                if change is None:
                    return
                line_or_none = _event(change, matches, present)
                if line_or_none is not None:
                    yield line_or_none
        except TimeoutError:
            return
        finally:
            unsubscribe()
            self._queues.discard(queue)


def _event(
    change: Change, matches: Matcher, present: Callable[[JsonObject], JsonObject] | None
) -> bytes | None:
    """Return the event for a change as a selector sees it.

    An object that comes to match is ADDED to the selection, one that ceases to is DELETED from it.
    """
    is_in = matches(change.obj)
    was_in = change.previous is not None and matches(change.previous)
    if change.kind == "DELETED":
        kind = "DELETED" if was_in else ""
    elif is_in:
        kind = "MODIFIED" if was_in else "ADDED"
    else:
        kind = "DELETED" if was_in else ""
    if not kind:
        return None
    encoded = json.dumps(present(change.obj)).encode() if present else change.encoded
    return _line(kind, encoded)


def _line(kind: str, encoded: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), encoded)
