"""The common part of all controllers of workloads: when to reconcile, their pods, their status."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable
from typing import ClassVar

from lagbench.core.scenario.run_names import POD_ORDINAL_ANNOTATION
from lagbench.core.workload_state import is_ready
from lagbench.localkube.controllers.events import EventRecorder
from lagbench.localkube.kube_objects import (
    ApiError,
    JsonObject,
    condition,
    controller_uid,
    copy_of,
    from_rfc3339,
    is_terminating,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
)
from lagbench.localkube.storage.deletion import Deletion
from lagbench.localkube.storage.object_registry import Registry
from lagbench.localkube.storage.object_store import Change
from lagbench.localkube.storage.resources import POD, Resource

_log = logging.getLogger(__name__)
# Wait after a failed attempt: its cause (a conflict, a terminating namespace) is short-lived.
_RETRY_SECONDS = 1.0


class Controller:
    """Collects the due workloads of one kind and reconciles each once per loop turn.

    A workload is due when it or a pod that it controls changes.
    """

    resource: ClassVar[Resource]

    def __init__(self, registry: Registry, deletion: Deletion, events: EventRecorder) -> None:
        """Follow the registry's store."""
        self.registry, self.deletion, self.events = registry, deletion, events
        self._created: Counter[str] = Counter()  # pods created so far, by the workload's uid
        self._due: set[str] = set()
        self._by_uid: dict[str, tuple[str, str]] = {}
        self._is_planned = False
        self._timers: dict[tuple[str, float], asyncio.TimerHandle] = {}
        self._unsubscribe = registry.store.subscribe(self._on_change)

    def reconcile(self, workload: JsonObject) -> None:
        """Do what is to be done now for one workload that is not terminating."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop reconciling; leave the pods as they are."""
        self._unsubscribe()
        self._due.clear()
        for timer in self._timers.values():
            timer.cancel()

    def look_again(self, workload: JsonObject, seconds: float) -> None:
        """Also reconcile in ``seconds``; two calls for the same instant count as one."""
        loop = asyncio.get_running_loop()
        key = (uid_of(workload), round(loop.time() + seconds, 1))
        if key in self._timers:
            return

        def due() -> None:
            self._timers.pop(key, None)
            self._plan(key[0])

        self._timers[key] = loop.call_later(max(0.0, seconds), due)

    def pods(self, workload: JsonObject) -> list[JsonObject]:
        """Return all pods that ``workload`` controls, terminating ones too."""
        pods = self.registry.store.select(POD, namespace_of(workload))
        return [pod for pod in pods if controller_uid(pod) == uid_of(workload)]

    def active_pods(self, workload: JsonObject) -> list[JsonObject]:
        """Return the pods that have not ended and are not asked to."""
        return [
            pod for pod in self.pods(workload) if not is_terminating(pod) and not has_ended(pod)
        ]

    def create_pod(
        self,
        workload: JsonObject,
        template: JsonObject,
        name: str,
        *,
        labels: JsonObject | None = None,
        has_ordinal: bool = True,
    ) -> JsonObject:
        """Create a pod of a template; its ordinal is the number of pods created before it."""
        made, uid = copy_of(template), uid_of(workload)
        metadata = made.get("metadata") or {}
        annotations = dict(metadata.get("annotations") or {})
        if has_ordinal:
            annotations[POD_ORDINAL_ANNOTATION] = str(self._created[uid])
        pod = {
            "metadata": {
                "name": name,
                "labels": {**(metadata.get("labels") or {}), **(labels or {})},
                "annotations": annotations,
                "ownerReferences": [owner_reference(workload)],
            },
            "spec": made["spec"],
        }
        created = self.registry.create(POD, pod, namespace_of(workload))
        self._created[uid] += 1
        return created

    def write_status(self, workload: JsonObject, edit: Callable[[JsonObject], JsonObject]) -> None:
        """Replace the status by what ``edit`` returns for the present one."""

        def replace(obj: JsonObject) -> None:
            obj["status"] = edit(obj.get("status") or {})

        self.registry.change(self.resource, namespace_of(workload), name_of(workload), replace)

    def seconds_until_available(self, workload: JsonObject, pod: JsonObject) -> float | None:
        """Return how long a pod must stay ready to be available; None: it is not ready.

        If it is not available yet, the workload is reconciled again then.
        """
        if not is_ready(pod):
            return None
        needed = float(workload["spec"].get("minReadySeconds") or 0)
        since = from_rfc3339((condition(pod, "Ready") or {})["lastTransitionTime"])
        left = max(0.0, since + needed - self.registry.now_ns() / 1e9) if needed else 0.0
        if left:
            self.look_again(workload, left)
        return left

    def _on_change(self, change: Change) -> None:
        uid = uid_of(change.obj)
        if change.resource == self.resource and change.kind == "DELETED":
            self._by_uid.pop(uid, None)
        elif change.resource == self.resource:
            self._by_uid[uid] = (namespace_of(change.obj), name_of(change.obj))
            self._plan(uid)
        elif change.resource == POD and (owner := controller_uid(change.obj)) in self._by_uid:
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
            obj = self.registry.store.find(self.resource, *place) if place else None
            if obj is None or is_terminating(obj):
                continue
            try:
                self.reconcile(obj)
            except ApiError as error:
                _log.warning("%s %s: %s", self.resource.kind, name_of(obj), error.message)
                self.look_again(obj, _RETRY_SECONDS)
            except Exception:  # one odd object must not stop the controller for the others
                _log.exception("%s %s cannot be reconciled", self.resource.kind, name_of(obj))


def has_ended(pod: JsonObject) -> bool:
    """Return whether none of the pod's containers will run again."""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def hash_of(template: JsonObject) -> str:
    """Return ten characters that change with the pod template."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).digest()
    alphabet = "bcdfghjklmnpqrstvwxz2456789"
    return "".join(alphabet[byte % len(alphabet)] for byte in digest[:10])
