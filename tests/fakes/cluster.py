"""A Kubernetes API in memory: the calls of the autoscaler's ``Cluster``, without a server."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from lagbench.adapters.kube.followed_cluster import (
    ClusterError,
    Kind,
    Manifest,
    ObjectKey,
    Scale,
    Snapshot,
    key_of,
)
from lagbench.core.hpa.hpa_object import ScaleTarget


class FakeCluster:
    """Objects by kind and key; Deployments follow their scale at once."""

    def __init__(self) -> None:
        """Start empty."""
        self.objects: dict[tuple[Kind, ObjectKey], Manifest] = {}
        self.scales: dict[ObjectKey, int] = {}
        self.calls: list[str] = []
        self._next_uid = 0

    def put(self, manifest: Manifest) -> Manifest:
        """Store an object as if a user had created it."""
        stored = copy.deepcopy(manifest)
        self._next_uid += 1
        metadata = stored["metadata"]
        metadata.setdefault("uid", f"uid-{self._next_uid}")
        metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        self.objects[(stored["apiVersion"], stored["kind"]), key_of(stored)] = stored
        return copy.deepcopy(stored)

    def events(self, name: str) -> list[tuple[str, str]]:
        """Return reason and message of the events about an object."""
        return [
            (item["reason"], item["message"])
            for (kind, _), item in self.objects.items()
            if kind[1] == "Event" and item["involvedObject"]["name"] == name
        ]

    def follow(
        self, kind: Kind, seen: Callable[[Snapshot], None], is_over: Callable[[], bool]
    ) -> None:
        """Show the present objects once."""
        seen({key: copy.deepcopy(item) for (k, key), item in self.objects.items() if k == kind})

    def get(self, kind: Kind, key: ObjectKey) -> Manifest:
        """Return an object."""
        if (kind, key) not in self.objects:
            raise ClusterError(f"{kind[1].lower()}s {key[1]!r} not found", status=404)
        return copy.deepcopy(self.objects[kind, key])

    def list(self, kind: Kind, namespace: str, label_selector: str) -> list[Manifest]:
        """Return a namespace's objects, whatever their labels."""
        found = [i for (k, key), i in self.objects.items() if k == kind and key[0] == namespace]
        return copy.deepcopy(found)

    def create(self, manifest: Manifest) -> Manifest:
        """Create an object."""
        kind = (manifest["apiVersion"], manifest["kind"])
        if (kind, key_of(manifest)) in self.objects:
            raise ClusterError("exists", status=409)
        self.calls.append(f"create {kind[1]}")
        return self.put(manifest)

    def replace(self, manifest: Manifest) -> Manifest:
        """Replace an object."""
        kind = (manifest["apiVersion"], manifest["kind"])
        self.get(kind, key_of(manifest))
        self.calls.append(f"replace {kind[1]}")
        return self.put(manifest)

    def delete(self, kind: Kind, key: ObjectKey) -> None:
        """Delete an object."""
        self.objects.pop((kind, key), None)

    def patch(self, kind: Kind, key: ObjectKey, change: Manifest, *, subresource: str = "") -> None:
        """Merge a change into an object."""
        self.get(kind, key)
        _merge(self.objects[kind, key], copy.deepcopy(change))

    def get_scale(self, target: ScaleTarget, namespace: str) -> Scale:
        """Return the scale of a workload."""
        if (namespace, target.name) not in self.scales:
            raise ClusterError(f'deployments.apps "{target.name}" not found', status=404)
        replicas = self.scales[namespace, target.name]
        return Scale(replicas, replicas, f"app={target.name}")

    def set_replicas(self, target: ScaleTarget, namespace: str, replicas: int) -> None:
        """Scale a workload."""
        self.get_scale(target, namespace)
        self.scales[namespace, target.name] = replicas


def _merge(target: dict[str, Any], change: dict[str, Any]) -> None:
    for key, value in change.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value
