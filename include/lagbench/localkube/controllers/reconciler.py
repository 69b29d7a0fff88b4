"""Reconcile each object once per loop turn after it or its pods change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from lagbench.localkube.api_error import ApiError
from lagbench.localkube.objects import (
    JsonObject,
    controller_uid,
    name_of,
    namespace_of,
    uid_of,
)
from lagbench.localkube.storage.resources import POD, Resource
from lagbench.localkube.storage.store import Change, Store

_log = logging.getLogger(__name__)
# Wait after a failed attempt: its cause (a conflict, a terminating namespace) is short-lived.
_RETRY_SECONDS = 1.0


class Reconciler:
    """Collects the due workloads of one kind and reconciles each once per loop turn."""

    def __init__(
        self, store: Store, resource: Resource, reconcile: Callable[[JsonObject], None]
    ) -> None:
        """Reconcile objects of ``resource`` when they or pods that they control change."""
        self._store, self._resource, self._reconcile = store, resource, reconcile
        self._due: set[str] = set()
        self._by_uid: dict[str, tuple[str, str]] = {}
        self._is_planned = False
        self._timers: dict[tuple[str, float], asyncio.TimerHandle] = {}
        self._unsubscribe = store.subscribe(self._on_change)

    def close(self) -> None:
        """Stop reconciling."""
        self._unsubscribe()
        self._due.clear()
        for timer in self._timers.values():
            timer.cancel()

    def look_again(self, obj: JsonObject, seconds: float) -> None:
        """Also reconcile ``obj`` in ``seconds``; two calls for the same instant count as one."""
        loop = asyncio.get_running_loop()
        key = (uid_of(obj), round(loop.time() + seconds, 1))
        if key in self._timers:
            return

        def due() -> None:
            self._timers.pop(key, None)
            self._plan(key[0])

        self._timers[key] = loop.call_later(max(0.0, seconds), due)

    def _on_change(self, change: Change) -> None:
        if change.resource == self._resource:
            uid = uid_of(change.obj)
            if change.kind == "DELETED":
                self._by_uid.pop(uid, None)
                return
            self._by_uid[uid] = (namespace_of(change.obj), name_of(change.obj))
            self._plan(uid)
        elif change.resource == POD:
            owner = controller_uid(change.obj)
            if owner in self._by_uid:
                self._plan(owner)

    def _plan(self, uid: str) -> None:
        self._due.add(uid)
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_planned = False
        due, self._due = self._due, set()
        for uid in due:
            place = self._by_uid.get(uid)
            obj = self._store.find(self._resource, *place) if place else None
            if obj is None:
                continue
            try:
                self._reconcile(obj)
            except ApiError as error:
                _log.warning("%s %s: %s", self._resource.kind, name_of(obj), error.message)
                self.look_again(obj, _RETRY_SECONDS)
            except Exception:  # one odd object must not stop the controller for the others
                _log.exception("%s %s cannot be reconciled", self._resource.kind, name_of(obj))
