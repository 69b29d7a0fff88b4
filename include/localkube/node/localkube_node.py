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

from localkube.kinds import POD
from localkube.kube_objects import ApiError, JsonObject, KubeObject, LocalkubeError, bad_request
from localkube.node.pod_worker import NodeParts, PodWorker
from localkube.storage.object_store import Change

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
            grace = float(worker.pod.spec["terminationGracePeriodSeconds"])
            self._spawn(worker.stop(min(grace, limit_seconds)))
        while self._tasks:
            await asyncio.wait(self._tasks)

    def kill_all(self) -> None:
        """Stop every pod at once, without a grace period."""
        for worker in self.workers():
            self._spawn(worker.stop(0))

    def send_signal(self, pod: KubeObject, body: JsonObject) -> JsonObject:
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
        worker = self._workers.get(pod.uid)
        if worker is None or not worker.running_pids():
            raise ApiError(409, "Conflict", f"pod {pod.name!r} has no running process")
        if (end := self._ends_of_stops.pop(pod.uid, None)) is not None:
            end.cancel()
        worker.send_signal(signum)
        if is_stop and seconds is not None:
            loop = asyncio.get_running_loop()
            end = loop.call_later(float(seconds), worker.send_signal, signal.SIGCONT)
            self._ends_of_stops[pod.uid] = end
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def _on_change(self, change: Change) -> None:
        if change.resource != POD:
            return
        worker = self._workers.get(change.obj.uid)
        if change.kind == "ADDED":
            self._take_over(change.obj)
            return
        if change.kind == "DELETED":
            if worker is not None:  # removed without grace: none of its processes may stay
                self._spawn(worker.stop(0))
            return
        grace = change.obj.metadata.get("deletionGracePeriodSeconds")
        before = (change.previous or change.obj).metadata.get("deletionGracePeriodSeconds")
        if grace is None or grace == before:
            return
        if worker is not None:
            self._spawn(worker.stop(float(grace)))
        elif grace > 0:
            self._finish(change.obj)

    def _take_over(self, pod: KubeObject) -> None:
        problem = "FailedScheduling", "localkube is stopping"
        if not self._is_closing:
            try:
                worker = self._workers[pod.uid] = PodWorker(pod, self._parts)
            except LocalkubeError as error:  # no free port left
                problem = "FailedScheduling", str(error)
            except Exception as error:  # a field of an unexpected shape must not stop the node
                _log.exception("pod %s cannot be run", pod.name)
                problem = "Failed", f"localkube cannot run this pod: {error!r}"
            else:
                self._spawn(self._run(worker))
                return
        self._parts.events.record(pod, "Warning", *problem)

    async def _run(self, worker: PodWorker) -> None:
        try:
            await worker.run()
        finally:
            self._workers.pop(worker.pod.uid, None)
        pod = self._store.find(POD, *worker.pod.key)
        if pod is not None and pod.uid == worker.pod.uid and pod.is_terminating:
            self._finish(pod)

    def _finish(self, pod: KubeObject) -> None:
        """Remove a terminating pod without processes, unless it still has finalizers."""
        if not self._parts.registry.mark_deleted(POD, pod, 0).finalizers:
            self._store.remove(POD, *pod.key)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
