"""The one node: starts a worker for every pod and removes pods whose processes have ended.

``pods/NAME/signal`` is localkube's own subresource: no API of a cluster does this. A deletion
without grace still sends SIGTERM there, and the first process of a container ignores SIGKILL and
SIGSTOP from inside. A stop has an end that does not depend on its sender: after ``seconds``
localkube lets the pod continue.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine

from lagbench.errors import NotReady
from lagbench.localkube.kube_objects import (
    ApiError,
    JsonObject,
    bad_request,
    is_terminating,
    name_of,
    namespace_of,
    uid_of,
)
from lagbench.localkube.node.pod_worker import NodeParts, PodWorker
from lagbench.localkube.storage.object_store import Change
from lagbench.localkube.storage.resources import POD

_log = logging.getLogger(__name__)

_SIGNALS = {s.name: s for s in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT)}

_LONGEST_STOP_SECONDS = 86_400.0


class Node:
    """Follows the pods in the store."""

    def __init__(self, parts: NodeParts) -> None:
        """Run pods with ``parts`` from now on."""
        self._parts = parts
        self._store = parts.registry.store
        self._workers: dict[str, PodWorker] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends_of_stops: dict[str, asyncio.TimerHandle] = {}
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

    def send_signal(self, pod: JsonObject, body: JsonObject) -> JsonObject:
        """Send the signal of ``body``, a mapping of ``signal`` and, for SIGSTOP, ``seconds``.

        :raises ApiError: the body is wrong, or the pod has no running process.
        """
        signum, seconds = _SIGNALS.get(str(body.get("signal"))), body.get("seconds")
        if signum is None:
            raise bad_request(f"signal: {body.get('signal')!r} is not one of {', '.join(_SIGNALS)}")
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        is_stop = signum is signal.SIGSTOP
        if is_stop and not (is_number and seconds and 0 < seconds <= _LONGEST_STOP_SECONDS):
            raise bad_request(
                f"seconds: {seconds!r} must be a number above 0 and at most "
                f"{_LONGEST_STOP_SECONDS:g}: the pod continues then by itself"
            )
        uid = uid_of(pod)
        worker = self._workers.get(uid)
        if worker is None or not worker.running_pids():
            raise ApiError(409, "Conflict", f"pod {name_of(pod)!r} has no running process")
        if (end := self._ends_of_stops.pop(uid, None)) is not None:
            end.cancel()
        worker.send_signal(signum)
        if is_stop and seconds is not None:
            loop = asyncio.get_running_loop()
            end = loop.call_later(float(seconds), worker.send_signal, signal.SIGCONT)
            self._ends_of_stops[uid] = end
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def _on_change(self, change: Change) -> None:
        if change.resource != POD:
            return
        worker = self._workers.get(uid_of(change.obj))
        if change.kind == "ADDED":
            self._take_over(change.obj)
            return
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
        events = self._parts.events
        if self._is_closing:
            events.warning(pod, "FailedScheduling", "localkube is stopping")
            return
        try:
            worker = PodWorker(pod, self._parts)
        except NotReady as error:  # no free port left
            events.warning(pod, "FailedScheduling", str(error))
        except Exception as error:  # a field of an unexpected shape must not stop the node
            _log.exception("pod %s cannot be run", name_of(pod))
            events.warning(pod, "Failed", f"localkube cannot run this pod: {error!r}")
        else:
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
