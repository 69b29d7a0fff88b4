"""The ``Cluster`` of a real Kubernetes for a controller that replaces KEDA and the HPA.

Its HPAs stay in memory, because Kubernetes would act on a stored one. It sees only ScaledObjects
that were handed over to it, and writes only their status: spec, labels and finalizers are the
user's and KEDA's. One target has one controller, or this program ends.
"""

from __future__ import annotations

import copy
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from functools import partial

from lagbench.adapters.kube.followed_cluster import (
    HPA,
    SCALED_OBJECT,
    Cluster,
    ClusterError,
    Kind,
    Manifest,
    ObjectKey,
    Snapshot,
    key_of,
)
from lagbench.core.keda.loop.keda_hpa import (
    as_driven,
    hpa_on_target,
    is_handed_over,
    standing_hpa_problem,
    unpaused_problem,
    with_paused_of,
)
from lagbench.errors import NotReady
from lagbench.programs.autoscaler.hpa_worker import HpaWorker
from lagbench.programs.autoscaler.object_worker import Worker, WorkerContext
from lagbench.programs.autoscaler.scaled_object_worker import ScaledObjectWorker

log = logging.getLogger(__name__)

# KEDA deletes the HPA of a paused object at once; a busy operator, or API, takes its time.
_LETTING_GO_SECONDS = 15.0

_LOOK_SECONDS = 0.5


class Handover:
    """Sees every ScaledObject and HPA of a namespace and says which of the former are ours."""

    def __init__(
        self, refuse: Callable[[NotReady], None], monotonic_seconds: Callable[[], float]
    ) -> None:
        """Call ``refuse`` once one of its targets has a second controller."""
        self._refuse = refuse
        self._monotonic_seconds = monotonic_seconds
        self._lock = threading.Lock()
        self._seen: dict[Kind, Snapshot] = {}
        self._driven: dict[ObjectKey, Manifest] = {}
        self._waits_since: dict[ObjectKey, float] = {}

    def stored(self, key: ObjectKey) -> Manifest:
        """Return a ScaledObject as it is in the cluster; empty when there is none."""
        return self._seen.get(SCALED_OBJECT, {}).get(key, {})

    def see(self, kind: Kind, snapshot: Snapshot) -> Snapshot | None:
        """Take all objects of a kind; return those to drive, None before both are known."""
        with self._lock:
            self._seen[kind] = snapshot
            return self._sorted_out()

    def look_again(self) -> None:
        """Reject an object whose HPA has existed for too long."""
        with self._lock:
            self._sorted_out()

    def _sorted_out(self) -> Snapshot | None:
        if len(self._seen) < len((SCALED_OBJECT, HPA)):
            return None
        before, self._driven = self._driven, {}
        for key, manifest in self._seen[SCALED_OBJECT].items():
            if is_handed_over(manifest) and self._is_free(key, manifest, was_driven=key in before):
                self._driven[key] = as_driven(manifest)
        for key in set(self._waits_since) - set(self._seen[SCALED_OBJECT]):
            del self._waits_since[key]
        return dict(self._driven)

    def _is_free(self, key: ObjectKey, manifest: Manifest, *, was_driven: bool) -> bool:
        if manifest["metadata"].get("deletionTimestamp"):
            return was_driven
        problem = unpaused_problem(manifest)
        if problem:
            self._refuse(NotReady(problem))
            return False
        hpa = hpa_on_target(manifest, self._seen[HPA].values())
        if not hpa:
            self._waits_since.pop(key, None)
            return True
        now = self._monotonic_seconds()
        if key not in self._waits_since:
            log.info("%s/%s: waiting for the deletion of the HPA %s", *key, hpa)
        since = self._waits_since.setdefault(key, now)
        if was_driven or now - since > _LETTING_GO_SECONDS:
            self._refuse(NotReady(standing_hpa_problem(manifest, hpa)))
        return False


class InsteadOfKeda:
    """Passes every call on to ``cluster``, except those that concern KEDA or its HPA."""

    def __init__(self, cluster: Cluster, handover: Handover) -> None:
        """Drive what ``handover`` lets through."""
        self._cluster = cluster
        self._handover = handover
        self._hpas: dict[ObjectKey, Manifest] = {}
        self._version = 0
        self._changed = threading.Condition()
        self.list, self.get_scale = cluster.list, cluster.get_scale
        self.set_replicas = cluster.set_replicas

    def follow(
        self, kind: Kind, seen: Callable[[Snapshot], None], is_over: Callable[[], bool]
    ) -> None:
        """Follow the HPAs in memory, and the ScaledObjects that are free to be driven."""
        if kind == HPA:
            self._follow_own_hpas(seen, is_over)
            return
        turn = threading.Lock()

        def notify(kind: Kind, snapshot: Snapshot) -> None:
            with turn:
                driven = self._handover.see(kind, snapshot)
                if driven is not None:
                    seen(driven)

        threading.Thread(
            target=self._cluster.follow,
            args=(HPA, partial(notify, HPA), is_over),
            name="follow HPAs of the cluster",
            daemon=True,
        ).start()
        self._cluster.follow(kind, partial(notify, kind), is_over)

    def get(self, kind: Kind, key: ObjectKey) -> Manifest:
        """Return an object."""
        if kind != HPA:
            return self._cluster.get(kind, key)
        with self._changed:
            return copy.deepcopy(self._own_hpa(key))

    def create(self, manifest: Manifest) -> Manifest:
        """Create an object; events about an HPA in memory go to its ScaledObject."""
        if manifest["kind"] == HPA[1]:
            return self._put_hpa(manifest)
        about = manifest.get("involvedObject") or {}
        hpa = self._hpas.get((about.get("namespace", ""), about.get("name", "")))
        if about.get("kind") == HPA[1] and hpa is not None:
            owner = hpa["metadata"]["ownerReferences"][0]
            names = {name: owner[name] for name in ("apiVersion", "kind", "name", "uid")}
            manifest = {**manifest, "involvedObject": {**about, **names}}
        return self._cluster.create(manifest)

    def replace(self, manifest: Manifest) -> Manifest:
        """Replace an object."""
        is_hpa = manifest["kind"] == HPA[1]
        return self._put_hpa(manifest) if is_hpa else self._cluster.replace(manifest)

    def delete(self, kind: Kind, key: ObjectKey) -> None:
        """Delete an object; a missing object is fine."""
        if kind != HPA:
            self._cluster.delete(kind, key)
            return
        with self._changed:
            if self._hpas.pop(key, None) is not None:
                self._notify()

    def patch(self, kind: Kind, key: ObjectKey, change: Manifest, *, subresource: str = "") -> None:
        """Merge ``change`` into an object or its subresource."""
        if kind == HPA:
            with self._changed:
                stored = self._own_hpa(key)
                merged = {**stored["status"], **change["status"]}
                stored["status"] = {name: it for name, it in merged.items() if it is not None}
                self._notify()
            return
        if kind == SCALED_OBJECT:
            if not subresource:
                return
            status = dict(change["status"])
            if "conditions" in status:
                stored = self._handover.stored(key)
                status["conditions"] = with_paused_of(status["conditions"], stored)
            change = {**change, "status": status}
        self._cluster.patch(kind, key, change, subresource=subresource)

    def _follow_own_hpas(
        self, seen: Callable[[Snapshot], None], is_over: Callable[[], bool]
    ) -> None:
        reported = -1
        while not is_over():
            with self._changed:
                if self._version == reported:
                    self._changed.wait(_LOOK_SECONDS)
                    continue
                reported, snapshot = self._version, copy.deepcopy(self._hpas)
            seen(snapshot)

    def _put_hpa(self, manifest: Manifest) -> Manifest:
        """Store an HPA, new or changed; uid and status are those of the one before."""
        with self._changed:
            before = self._hpas.get(key_of(manifest), {})
            stored = copy.deepcopy(manifest)
            stored.update(apiVersion=HPA[0], kind=HPA[1], status=before.get("status", {}))
            uid = before.get("metadata", {}).get("uid") or str(uuid.uuid4())
            stored["metadata"]["uid"] = uid
            self._hpas[key_of(manifest)] = stored
            self._notify()
            return copy.deepcopy(stored)

    def _own_hpa(self, key: ObjectKey) -> Manifest:
        if key not in self._hpas:
            raise ClusterError(f"no HPA {'/'.join(key)} in memory", status=404)
        return self._hpas[key]

    def _notify(self) -> None:
        self._version += 1
        self._changed.notify_all()


def require_kinds(cluster: Cluster, namespace: str) -> None:
    """Raise ``NotReady`` unless ScaledObjects and HPAs can be listed in ``namespace``."""
    for kind in (SCALED_OBJECT, HPA):
        try:
            cluster.list(kind, namespace, "")
        except ClusterError as error:
            if not error.is_not_found:
                raise
            raise NotReady(
                f"{error}. Install KEDA's CustomResourceDefinitions; its operator is not needed"
            ) from error


_WORKERS: Mapping[Kind, type[Worker]] = {HPA: HpaWorker, SCALED_OBJECT: ScaledObjectWorker}


class Operator:
    """Starts and stops workers with their objects; an object created again gets a new worker."""

    def __init__(self, context: WorkerContext) -> None:
        """Watch nothing before ``start``."""
        self._context = context
        self.workers: dict[Kind, dict[ObjectKey, Worker]] = {kind: {} for kind in _WORKERS}
        self._is_over = threading.Event()
        self._seen: set[Kind] = set()

    @property
    def is_ready(self) -> bool:
        """Return whether both kinds have been listed."""
        return len(self._seen) == len(_WORKERS)

    def start(self) -> None:
        """Follow both kinds, each in its own thread."""
        for kind in _WORKERS:
            threading.Thread(
                target=self._context.cluster.follow,
                args=(kind, partial(self.see, kind), self._is_over.is_set),
                name=f"follow {kind[1]}",
                daemon=True,
            ).start()

    def stop(self) -> None:
        """Start no further work; objects stay as they are."""
        self._is_over.set()
        for workers in self.workers.values():
            for worker in list(workers.values()):
                worker.abandon()
        self._context.telemetry.keep_only([])

    def see(self, kind: Kind, snapshot: Snapshot) -> None:
        """Take all objects of a kind as they are now."""
        if self._is_over.is_set():
            return
        self._context.objects[kind] = snapshot
        workers = self.workers[kind]
        for key, worker in list(workers.items()):
            if key not in snapshot or not worker.is_of(snapshot[key]):
                log.info("%s was deleted", worker.name)
                workers.pop(key).stop()
                self._tell_scaled_objects(kind, key)
        for key, manifest in snapshot.items():
            if key not in workers:
                log.info("%s %s/%s found", kind[1], *key)
                workers[key] = _WORKERS[kind](manifest, self._context)
                workers[key].start()
            elif workers[key].update(manifest) and kind == HPA:
                self._tell_scaled_objects(kind, key)
        every = [
            manifest for found in self._context.objects.values() for manifest in found.values()
        ]
        self._context.telemetry.keep_only(every)
        self._seen.add(kind)

    def _tell_scaled_objects(self, kind: Kind, key: ObjectKey) -> None:
        # The thread that follows ScaledObjects may change the workers meanwhile.
        for worker in list(self.workers[SCALED_OBJECT].values()):
            if isinstance(worker, ScaledObjectWorker):
                worker.reconsider(kind, key)
