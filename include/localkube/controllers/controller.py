"""The common part of all controllers of workloads: when to reconcile, their pods, their status."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable
from typing import ClassVar

from localkube.controllers.events import EventRecorder
from localkube.kinds import POD, Resource
from localkube.kube_objects import ORDINAL, ApiError, JsonObject, KubeObject, from_rfc3339
from localkube.storage.deletion import Deletion
from localkube.storage.object_registry import ALPHABET, Registry
from localkube.storage.object_store import Change

_log = logging.getLogger(__name__)
# Wait after a failed attempt: its cause (a conflict, a terminating namespace) is short-lived.
_RETRY_SECONDS = 1.0


class Controller:
    """Collects the due workloads of one kind and reconciles each once per loop turn.

    A workload is due when it or a pod that it controls changes.
    """

    resource: ClassVar[Resource]

    def __init__(self, registry: Registry, deletion: Deletion) -> None:
        """Follow the registry's store."""
        self.registry, self.deletion = registry, deletion
        self.events = EventRecorder(registry, source=f"{self.resource.kind.lower()}-controller")
        self._created: Counter[str] = Counter()  # pods created so far, by the workload's uid
        self._due: set[str] = set()
        self._by_uid: dict[str, tuple[str, str]] = {}
        self._is_planned = False
        self._timers: dict[tuple[str, float], asyncio.TimerHandle] = {}
        self._unsubscribe = registry.store.subscribe(self._on_change)

    def reconcile(self, workload: KubeObject) -> None:
        """Do what is to be done now for one workload that is not terminating."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop reconciling; leave the pods as they are."""
        self._unsubscribe()
        self._due.clear()
        for timer in self._timers.values():
            timer.cancel()

    def look_again(self, workload: KubeObject, seconds: float) -> None:
        """Also reconcile in ``seconds``; two calls for the same instant count as one."""
        loop = asyncio.get_running_loop()
        key = (workload.uid, round(loop.time() + seconds, 1))
        if key in self._timers:
            return

        def due() -> None:
            self._timers.pop(key, None)
            self._plan(key[0])

        self._timers[key] = loop.call_later(max(0.0, seconds), due)

    def pods(self, workload: KubeObject) -> list[KubeObject]:
        """Return all pods that ``workload`` controls, terminating ones too."""
        pods = self.registry.store.select(POD, workload.namespace)
        return [pod for pod in pods if pod.controller_uid == workload.uid]

    def active_pods(self, workload: KubeObject) -> list[KubeObject]:
        """Return the pods that have not ended and are not asked to."""
        pods = self.pods(workload)
        return [pod for pod in pods if not (pod.is_terminating or pod.has_ended)]

    def create_pod(
        self, workload: KubeObject, template: JsonObject, name: str, labels: JsonObject | None
    ) -> KubeObject:
        """Create a pod of a template; with own labels it has an ordinal, the number before it."""
        metadata, uid = template.get("metadata") or {}, workload.uid
        ordinal = {} if labels is None else {ORDINAL: str(self._created[uid])}
        pod = {
            "metadata": {
                "name": name,
                "labels": {**(metadata.get("labels") or {}), **(labels or {})},
                "annotations": {**(metadata.get("annotations") or {}), **ordinal},
                "ownerReferences": [workload.reference()],
            },
            "spec": template["spec"],
        }
        created = self.registry.create(POD, pod, workload.namespace)
        self._created[uid] += 1
        return created

    def write_status(self, workload: KubeObject, edit: Callable[[JsonObject], JsonObject]) -> None:
        """Replace the status by what ``edit`` returns for the present one."""

        def replace(obj: KubeObject) -> None:
            obj["status"] = edit(obj.status)

        self.registry.change(self.resource, *workload.key, replace)

    def seconds_until_available(self, workload: KubeObject, pod: KubeObject) -> float | None:
        """Return how long a pod must stay ready to be available; None: it is not ready.

        If it is not available yet, the workload is reconciled again then.
        """
        if not pod.is_ready:
            return None
        needed = float(workload.spec.get("minReadySeconds") or 0)
        since = from_rfc3339(pod.condition("Ready")["lastTransitionTime"])
        left = max(0.0, since + needed - self.registry.now_ns() / 1e9) if needed else 0.0
        if left:
            self.look_again(workload, left)
        return left

    def _on_change(self, change: Change) -> None:
        if change.resource == self.resource and change.kind == "DELETED":
            self._by_uid.pop(change.obj.uid, None)
        elif change.resource == self.resource:
            self._by_uid[change.obj.uid] = change.obj.key
            self._plan(change.obj.uid)
        elif change.resource == POD and (owner := change.obj.controller_uid) in self._by_uid:
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
            key = self._by_uid.get(uid)
            obj = self.registry.store.find(self.resource, *key) if key else None
            if obj is None or obj.is_terminating:
                continue
            try:
                self.reconcile(obj)
            except ApiError as error:
                _log.warning("%s %s: %s", self.resource.kind, obj.name, error.message)
                self.look_again(obj, _RETRY_SECONDS)
            except Exception:  # one odd object must not stop the controller for the others
                _log.exception("%s %s cannot be reconciled", self.resource.kind, obj.name)


def hash_of(template: JsonObject) -> str:
    """Return ten characters that change with the pod template."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest[:10])
