"""Writes one object's status; knows what it wrote, so that a late watch cannot undo a condition."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from lagbench.adapters.kube.cluster_protocol import Cluster, Kind, Manifest, key_of
from lagbench.core.hpa import Condition
from lagbench.programs.autoscaler.conditions import merge_conditions


class StatusWriter:
    """The only writer of this object's status; its users may be several threads."""

    def __init__(self, cluster: Cluster, kind: Kind, manifest: Manifest) -> None:
        """Begin with the status that the object has."""
        self._cluster = cluster
        self._kind = kind
        self._key = key_of(manifest)
        self.status: dict[str, Any] = dict(manifest.get("status") or {})
        self._lock = threading.Lock()

    def write(
        self, fields: dict[str, Any], changes: Iterable[Condition], *, now_ns: int | None = None
    ) -> None:
        """Write fields and conditions that changed; a field of None is removed."""
        with self._lock:
            before = self.status.get("conditions") or []
            new = {**fields, "conditions": merge_conditions(before, changes, now_ns=now_ns)}
            changed = {key: value for key, value in new.items() if self.status.get(key) != value}
            if not changed:
                return
            self._cluster.patch(self._kind, self._key, {"status": changed}, subresource="status")
            self.status.update(changed)
