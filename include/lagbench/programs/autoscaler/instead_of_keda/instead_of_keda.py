"""Provide the ``Cluster`` of a real Kubernetes for a controller that replaces KEDA and the HPA.

Its HPAs stay in memory, it sees only ScaledObjects that were handed over to it, and it writes only
their status: spec, labels and finalizers are the user's and KEDA's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from lagbench.adapters.kube.cluster_protocol import (
    HPA,
    SCALED_OBJECT,
    Cluster,
    ClusterError,
    Kind,
    Manifest,
    ObjectKey,
    Scale,
    Snapshot,
)
from lagbench.core.hpa import ScaleTarget
from lagbench.core.keda.loop import with_paused_of
from lagbench.errors import NotReady
from lagbench.programs.autoscaler.instead_of_keda.handover import Handover
from lagbench.programs.autoscaler.instead_of_keda.own_hpas import OwnHpas


class InsteadOfKeda:
    """Passes every call on to ``cluster``, except those that concern KEDA or its HPA."""

    def __init__(self, cluster: Cluster, handover: Handover) -> None:
        """Drive what ``handover`` lets through."""
        self._cluster = cluster
        self._handover = handover
        self._hpas = OwnHpas()

    def follow(
        self, kind: Kind, seen: Callable[[Snapshot], None], is_over: Callable[[], bool]
    ) -> None:
        """Follow the HPAs in memory, and the ScaledObjects that are free to be driven."""
        if kind == HPA:
            self._hpas.follow(seen, is_over)
            return
        if kind != SCALED_OBJECT:
            self._cluster.follow(kind, seen, is_over)
            return
        turn = threading.Lock()

        def notifier_of(
            sort_out: Callable[[Snapshot], Snapshot | None],
        ) -> Callable[[Snapshot], None]:
            def notify(snapshot: Snapshot) -> None:
                with turn:
                    driven = sort_out(snapshot)
                    if driven is not None:
                        seen(driven)

            return notify

        threading.Thread(
            target=self._cluster.follow,
            args=(HPA, notifier_of(self._handover.see_hpas), is_over),
            name="follow HPAs of the cluster",
            daemon=True,
        ).start()
        self._cluster.follow(kind, notifier_of(self._handover.see_scaled_objects), is_over)

    def get(self, kind: Kind, key: ObjectKey) -> Manifest:
        """Return an object."""
        return self._hpas.get(key) if kind == HPA else self._cluster.get(kind, key)

    def list(self, kind: Kind, namespace: str, label_selector: str) -> list[Manifest]:
        """Return the objects of a namespace that carry the labels."""
        return self._cluster.list(kind, namespace, label_selector)

    def create(self, manifest: Manifest) -> Manifest:
        """Create an object; events about an HPA in memory go to its ScaledObject."""
        if manifest["kind"] == HPA[1]:
            return self._hpas.put(manifest)
        if (manifest.get("involvedObject") or {}).get("kind") == HPA[1]:
            manifest = self._about_the_owner(manifest)
        return self._cluster.create(manifest)

    def replace(self, manifest: Manifest) -> Manifest:
        """Replace an object."""
        is_hpa = manifest["kind"] == HPA[1]
        return self._hpas.put(manifest) if is_hpa else self._cluster.replace(manifest)

    def delete(self, kind: Kind, key: ObjectKey) -> None:
        """Delete an object; a missing object is fine."""
        if kind == HPA:
            self._hpas.delete(key)
        else:
            self._cluster.delete(kind, key)

    def patch(self, kind: Kind, key: ObjectKey, change: Manifest, *, subresource: str = "") -> None:
        """Merge ``change`` into an object or its subresource."""
        if kind == HPA:
            self._hpas.write_status(key, change["status"])
            return
        if kind == SCALED_OBJECT:
            if not subresource:
                return
            change = self._with_keda_paused(key, change)
        self._cluster.patch(kind, key, change, subresource=subresource)

    def get_scale(self, target: ScaleTarget, namespace: str) -> Scale:
        """Return the target's scale subresource."""
        return self._cluster.get_scale(target, namespace)

    def set_replicas(self, target: ScaleTarget, namespace: str, replicas: int) -> None:
        """Set the replicas of the target through its scale subresource."""
        self._cluster.set_replicas(target, namespace, replicas)

    def _with_keda_paused(self, key: ObjectKey, change: Manifest) -> Manifest:
        status = dict(change["status"])
        if "conditions" in status:
            stored = self._handover.stored(key)
            status["conditions"] = with_paused_of(status["conditions"], stored)
        return {**change, "status": status}

    def _about_the_owner(self, event: Manifest) -> Manifest:
        about = event["involvedObject"]
        try:
            hpa = self._hpas.get((about["namespace"], about["name"]))
        except ClusterError:
            return event
        owner = hpa["metadata"]["ownerReferences"][0]
        names = {name: owner[name] for name in ("apiVersion", "kind", "name", "uid")}
        return {**event, "involvedObject": {**about, **names}}


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
