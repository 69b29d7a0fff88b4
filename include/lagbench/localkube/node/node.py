"""The one node: starts a worker for every pod and removes pods whose processes have ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine

from lagbench.errors import NotReady
from lagbench.localkube.node.pod_worker import NodeParts, PodWorker
from lagbench.localkube.objects import JsonObject, is_terminating, name_of, namespace_of, uid_of
from lagbench.localkube.storage.resources import POD
from lagbench.localkube.storage.store import Change

_log = logging.getLogger(__name__)


class Node:
    """Follows the pods in the store."""

    def __init__(self, parts: NodeParts) -> None:
        """Run pods with ``parts`` from now on."""
        self._parts = parts
        self._store = parts.registry.store
        self._workers: dict[str, PodWorker] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._store.subscribe(self._on_change)

    def workers(self) -> list[PodWorker]:
        """Return the workers of all pods that have not ended."""
        return list(self._workers.values())

    async def stop_all(self, limit_seconds: float) -> None:
        """Stop all pods by their grace periods, within ``limit_seconds``; accept no new pods."""
        self._is_closing = True
        for worker in self.workers():
            grace = float(worker.pod["spec"]["terminationGracePeriodSeconds"])
            self._spawn(worker.stop(min(grace, limit_seconds)))
        while self._tasks:
            await asyncio.wait(self._tasks)

    def kill_all(self) -> None:
        """Stop every pod at once, without a grace period."""
        for worker in self.workers():
            self._spawn(worker.stop(0))

    def _on_change(self, change: Change) -> None:
        if change.resource != POD:
            return
        uid = uid_of(change.obj)
        if change.kind == "ADDED":
            self._take_over(change.obj)
            return
        worker = self._workers.get(uid)
        if change.kind == "DELETED":
            if worker is not None:  # removed without grace: none of its processes may stay
                self._spawn(worker.stop(0))
            return
        grace = change.obj["metadata"].get("deletionGracePeriodSeconds")
        before = (change.previous or change.obj)["metadata"].get("deletionGracePeriodSeconds")
        if grace is None or grace == before:
            return
        if worker is not None:
            self._spawn(worker.stop(float(grace)))
        elif grace > 0:
            self._finish(change.obj)

    def _take_over(self, pod: JsonObject) -> None:
        if self._is_closing:
            self._parts.events.warning(pod, "FailedScheduling", "localkube is stopping")
            return
        try:
            worker = PodWorker(pod, self._parts)
        except NotReady as error:  # no free port left
            self._parts.events.warning(pod, "FailedScheduling", str(error))
            return
        except Exception as error:  # a field of an unexpected shape must not stop the node
            _log.exception("pod %s cannot be run", name_of(pod))
            self._parts.events.warning(pod, "Failed", f"localkube cannot run this pod: {error!r}")
            return
        self._workers[uid_of(pod)] = worker
        self._spawn(self._run(worker))

    async def _run(self, worker: PodWorker) -> None:
        try:
            await worker.run()
        finally:
            self._workers.pop(worker.uid, None)
        pod = self._store.find(POD, namespace_of(worker.pod), name_of(worker.pod))
        if pod is not None and uid_of(pod) == worker.uid and is_terminating(pod):
            self._finish(pod)

    def _finish(self, pod: JsonObject) -> None:
        """Remove a terminating pod without processes, unless it still has finalizers."""
        marked = self._parts.registry.mark_deleted(POD, pod, 0)
        if not marked["metadata"].get("finalizers"):
            self._store.remove(POD, namespace_of(pod), name_of(pod))

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
