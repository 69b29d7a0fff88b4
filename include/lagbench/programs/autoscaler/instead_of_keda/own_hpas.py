"""HPA objects kept in memory: for a cluster, where a stored one would be acted on by Kubernetes."""

from __future__ import annotations

import copy
import threading
import uuid
from collections.abc import Callable
from typing import Any

from lagbench.adapters.kube.cluster_protocol import (
    HPA,
    ClusterError,
    Manifest,
    ObjectKey,
    Snapshot,
    key_of,
)

_LOOK_SECONDS = 0.5


class OwnHpas:
    """The calls of an API for HPAs; they end with the process."""

    def __init__(self) -> None:
        """Start empty."""
        self._objects: dict[ObjectKey, Manifest] = {}
        self._version = 0
        self._changed = threading.Condition()

    def follow(self, seen: Callable[[Snapshot], None], is_over: Callable[[], bool]) -> None:
        """Call ``seen`` with all objects at once and after each change."""
        reported = -1
        while not is_over():
            with self._changed:
                if self._version == reported:
                    self._changed.wait(_LOOK_SECONDS)
                    continue
                reported, snapshot = self._version, copy.deepcopy(self._objects)
            seen(snapshot)

    def get(self, key: ObjectKey) -> Manifest:
        """Return an object."""
        with self._changed:
            return copy.deepcopy(self._stored(key))

    def put(self, manifest: Manifest) -> Manifest:
        """Store an object, new or changed; uid and status are those of the one before."""
        key = key_of(manifest)
        with self._changed:
            before = self._objects.get(key, {})
            uid = before.get("metadata", {}).get("uid") or str(uuid.uuid4())
            stored = copy.deepcopy(manifest)
            stored.update(apiVersion=HPA[0], kind=HPA[1])
            stored["metadata"]["uid"] = uid
            stored["status"] = before.get("status", {})
            self._objects[key] = stored
            self._notify()
            return copy.deepcopy(stored)

    def write_status(self, key: ObjectKey, change: dict[str, Any]) -> None:
        """Merge fields into the status; a field of None is removed."""
        with self._changed:
            stored = self._stored(key)
            merged = {**stored["status"], **change}
            stored["status"] = {name: value for name, value in merged.items() if value is not None}
            self._notify()

    def delete(self, key: ObjectKey) -> None:
        """Delete an object; a missing object is fine."""
        with self._changed:
            if self._objects.pop(key, None) is not None:
                self._notify()

    def _stored(self, key: ObjectKey) -> Manifest:
        if key not in self._objects:
            raise ClusterError(f"no HPA {'/'.join(key)} in memory", status=404)
        return self._objects[key]

    def _notify(self) -> None:
        self._version += 1
        self._changed.notify_all()
