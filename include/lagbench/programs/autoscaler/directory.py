"""Share between all workers: the latest objects, and the owners of metrics."""

from __future__ import annotations

import threading
from typing import Any, Protocol

from lagbench.adapters.kube.cluster_protocol import Manifest, ObjectKey, Snapshot
from lagbench.core.hpa import ScaleTarget


class MetricSource(Protocol):
    """Serves external metrics of one ScaledObject."""

    def read_metric_milli(self, metric_name: str) -> int:
        """Return the metric's value now, in thousandths; ``NotReady`` when it cannot be had."""
        ...


class Directory:
    """Snapshots are replaced whole, so readers need no lock."""

    def __init__(self) -> None:
        """Start empty."""
        self.scaled_objects: Snapshot = {}
        self.hpas: Snapshot = {}
        self._sources: dict[ObjectKey, MetricSource] = {}
        self._lock = threading.Lock()

    def offer(self, key: ObjectKey, source: MetricSource) -> None:
        """Serve the external metrics of the ScaledObject ``key`` from ``source``."""
        with self._lock:
            self._sources[key] = source

    def withdraw(self, key: ObjectKey, source: MetricSource) -> None:
        """No longer serve ``key`` from ``source``."""
        with self._lock:
            if self._sources.get(key) is source:
                del self._sources[key]

    def source_of(self, key: ObjectKey) -> MetricSource | None:
        """Return who serves the metrics of ``key``."""
        return self._sources.get(key)

    def other_owner(self, manifest: Manifest, target: ScaleTarget) -> str | None:
        """Return what manages ``target`` already, in KEDA's words; an older object wins."""
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        workload = f"the workload '{target.name}' of type '{target.api_version}.{target.kind}'"
        for (other_namespace, other_name), other in sorted(self.scaled_objects.items()):
            is_other = other_namespace == namespace and other_name != name
            if is_other and _points_at(other, target) and _age(other) < _age(manifest):
                return f"{workload} is already managed by the ScaledObject '{other_name}'"
        for (other_namespace, other_name), hpa in sorted(self.hpas.items()):
            if other_namespace != namespace or not _points_at(hpa, target):
                continue
            owners = hpa["metadata"].get("ownerReferences") or []
            if not any(owner.get("kind") == "ScaledObject" for owner in owners):
                return f"{workload} is already managed by the hpa '{other_name}'"
        return None


def _points_at(manifest: dict[str, Any], target: ScaleTarget) -> bool:
    given = (manifest.get("spec") or {}).get("scaleTargetRef") or {}
    kind = given.get("kind") or "Deployment"
    return given.get("name") == target.name and kind == target.kind


def _age(manifest: dict[str, Any]) -> tuple[str, str]:
    metadata = manifest["metadata"]
    return metadata.get("creationTimestamp", ""), metadata["name"]
