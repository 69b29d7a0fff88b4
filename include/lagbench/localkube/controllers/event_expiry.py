"""Remove each Event an hour after its last change, as an API server does (``--event-ttl``).

Clients write events too, and a text that changes makes another event each time.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from lagbench.localkube.objects import name_of, namespace_of
from lagbench.localkube.storage.resources import EVENT
from lagbench.localkube.storage.store import Change, Store

KEPT_SECONDS = 3600.0
_LOOK_SECONDS = 60.0


class EventExpiry:
    """Knows when each event of the store was last written."""

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
        expired = []
        for place, written_at in self._written_at.items():
            if written_at > written_before:
                break
            expired.append(place)
        for place in expired:
            self._store.remove(EVENT, *place)

    def _on_change(self, change: Change) -> None:
        if change.resource != EVENT:
            return
        place = (namespace_of(change.obj), name_of(change.obj))
        self._written_at.pop(place, None)
        if change.kind != "DELETED":
            self._written_at[place] = self._clock()
