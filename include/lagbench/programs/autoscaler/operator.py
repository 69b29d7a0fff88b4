"""Follow ScaledObjects and HPAs as the cluster shows them and keep one worker for each."""

from __future__ import annotations

import logging
import threading

from lagbench.adapters.kube.cluster_protocol import HPA, SCALED_OBJECT, ObjectKey, Snapshot
from lagbench.programs.autoscaler.hpa.hpa_worker import HpaWorker
from lagbench.programs.autoscaler.keda.scaled_object_worker import ScaledObjectWorker
from lagbench.programs.autoscaler.worker_context import WorkerContext

log = logging.getLogger(__name__)


class Operator:
    """Starts and stops workers with their objects; an object created again gets a new worker."""

    def __init__(self, context: WorkerContext) -> None:
        """Watch nothing before ``start``."""
        self._context = context
        self._scaled_objects: dict[ObjectKey, ScaledObjectWorker] = {}
        self._hpas: dict[ObjectKey, HpaWorker] = {}
        self._is_over = threading.Event()
        self._seen: set[str] = set()

    @property
    def is_ready(self) -> bool:
        """Return whether both kinds have been listed."""
        return len(self._seen) == len((HPA, SCALED_OBJECT))

    def start(self) -> None:
        """Follow both kinds, each in its own thread."""
        for kind, seen in ((HPA, self._see_hpas), (SCALED_OBJECT, self._see_scaled_objects)):
            threading.Thread(
                target=self._context.cluster.follow,
                args=(kind, seen, self._is_over.is_set),
                name=f"follow {kind[1]}",
                daemon=True,
            ).start()

    def stop(self) -> None:
        """Start no further work; objects stay as they are."""
        self._is_over.set()
        for worker in (*self._hpas.values(), *self._scaled_objects.values()):
            worker.abandon()

    def _see_scaled_objects(self, snapshot: Snapshot) -> None:
        if self._is_over.is_set():
            return
        self._context.directory.scaled_objects = snapshot
        for key, worker in list(self._scaled_objects.items()):
            found = snapshot.get(key)
            if found is None or found["metadata"].get("uid") != worker.uid:
                log.info("%s was deleted", worker.name)
                self._scaled_objects.pop(key).stop()
                self._wake_all()
        for key, manifest in snapshot.items():
            if key in self._scaled_objects:
                self._scaled_objects[key].update(manifest)
            else:
                log.info("ScaledObject %s/%s found", *key)
                scaler = self._scaled_objects[key] = ScaledObjectWorker(manifest, self._context)
                scaler.start()
        self._keep_telemetry()
        self._seen.add(SCALED_OBJECT[1])

    def _see_hpas(self, snapshot: Snapshot) -> None:
        if self._is_over.is_set():
            return
        self._context.directory.hpas = snapshot
        for key, worker in list(self._hpas.items()):
            found = snapshot.get(key)
            if found is None or found["metadata"].get("uid") != worker.uid:
                log.info("%s was deleted", worker.name)
                self._hpas.pop(key).stop()
                self._mend_hpa(key)
        for key, manifest in snapshot.items():
            if key in self._hpas:
                if self._hpas[key].update(manifest):
                    self._mend_hpa(key)
            else:
                log.info("HPA %s/%s found", *key)
                scaler = self._hpas[key] = HpaWorker(manifest, self._context)
                scaler.start()
        self._seen.add(HPA[1])

    def _mend_hpa(self, key: ObjectKey) -> None:
        """Let the owner of an HPA that someone deleted or edited make it as it should be."""
        # The thread that follows ScaledObjects may change the workers meanwhile.
        for (namespace, _), worker in list(self._scaled_objects.items()):
            if (namespace, worker.hpa_name) == key:
                worker.mend_hpa()

    def _wake_all(self) -> None:
        """Let objects that waited for a target try again: its owner may be the one that left."""
        for worker in self._scaled_objects.values():
            worker.retry_now()

    def _keep_telemetry(self) -> None:
        directory = self._context.directory
        manifests = [*directory.scaled_objects.values(), *directory.hpas.values()]
        self._context.telemetry.keep_only(list(manifests))
