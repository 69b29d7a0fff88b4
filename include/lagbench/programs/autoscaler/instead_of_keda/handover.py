"""The guard of a cluster that has KEDA: one target, one controller, or this program ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from lagbench.adapters.kube.cluster_protocol import Manifest, ObjectKey, Snapshot
from lagbench.core.keda.loop import (
    as_driven,
    hpa_on_target,
    is_handed_over,
    standing_hpa_problem,
    unpaused_problem,
)
from lagbench.errors import NotReady

log = logging.getLogger(__name__)

# KEDA deletes the HPA of a paused object at once; a busy operator, or API, takes its time.
_LETTING_GO_SECONDS = 15.0


class Handover:
    """Sees every ScaledObject and HPA of a namespace and says which of the former are ours."""

    def __init__(
        self, refuse: Callable[[NotReady], None], monotonic_seconds: Callable[[], float]
    ) -> None:
        """Call ``refuse`` once one of its targets has a second controller."""
        self._refuse = refuse
        self._monotonic_seconds = monotonic_seconds
        self._lock = threading.Lock()
        self._scaled_objects: Snapshot | None = None
        self._hpas: Snapshot | None = None
        self._driven: dict[ObjectKey, Manifest] = {}
        self._waits_since: dict[ObjectKey, float] = {}

    def stored(self, key: ObjectKey) -> Manifest:
        """Return a ScaledObject as it is in the cluster; empty when there is none."""
        return (self._scaled_objects or {}).get(key, {})

    def see_scaled_objects(self, snapshot: Snapshot) -> Snapshot | None:
        """Take all ScaledObjects; return those to drive, None while the HPAs are unknown."""
        with self._lock:
            self._scaled_objects = snapshot
            return self._sorted_out()

    def see_hpas(self, snapshot: Snapshot) -> Snapshot | None:
        """Take all HPAs; return the ScaledObjects to drive, None while those are unknown."""
        with self._lock:
            self._hpas = snapshot
            return self._sorted_out()

    def look_again(self) -> None:
        """Reject an object whose HPA has existed for too long."""
        with self._lock:
            self._sorted_out()

    def _sorted_out(self) -> Snapshot | None:
        if self._scaled_objects is None or self._hpas is None:
            return None
        before, self._driven = self._driven, {}
        for key, manifest in self._scaled_objects.items():
            if is_handed_over(manifest) and self._is_free(key, manifest, was_driven=key in before):
                self._driven[key] = as_driven(manifest)
        for key in set(self._waits_since) - set(self._scaled_objects):
            del self._waits_since[key]
        return dict(self._driven)

    def _is_free(self, key: ObjectKey, manifest: Manifest, *, was_driven: bool) -> bool:
        if manifest["metadata"].get("deletionTimestamp"):
            return was_driven
        problem = unpaused_problem(manifest)
        if problem:
            self._refuse(NotReady(problem))
            return False
        hpa = hpa_on_target(manifest, (self._hpas or {}).values())
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
