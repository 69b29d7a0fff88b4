"""Follow ScaledObjects and HPAs as the cluster shows them and keep one worker for each."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from functools import partial

from lagbench.adapters.kube.cluster_protocol import (
    HPA,
    SCALED_OBJECT,
    Kind,
    ObjectKey,
    Snapshot,
)
from lagbench.programs.autoscaler.hpa_worker import HpaWorker
from lagbench.programs.autoscaler.object_worker import Worker
from lagbench.programs.autoscaler.scaled_object_worker import ScaledObjectWorker
from lagbench.programs.autoscaler.worker_context import WorkerContext

log = logging.getLogger(__name__)

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
