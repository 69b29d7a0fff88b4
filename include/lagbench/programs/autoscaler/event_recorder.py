"""Kubernetes Events about an object; the same text again raises the count of the one before."""

from __future__ import annotations

import logging
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Literal

from lagbench.adapters.kube.cluster_protocol import EVENT, Cluster, ClusterError
from lagbench.core.kubernetes import format_instant

log = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]
_REMEMBERED = 1000


class EventRecorder:
    """Writes events for one component; a failure to write is logged and forgotten."""

    def __init__(self, cluster: Cluster, component: str, now_ns: Callable[[], int]) -> None:
        """Write into ``cluster`` as ``component``."""
        self._cluster = cluster
        self._component = component
        self._now_ns = now_ns
        self._written: OrderedDict[tuple[str, ...], tuple[str, int]] = OrderedDict()
        self._lock = threading.Lock()

    def record(self, about: Mapping[str, Any], kind: EventType, reason: str, message: str) -> None:
        """Record one event about an object."""
        metadata = about["metadata"]
        key = (metadata.get("uid", ""), kind, reason, message)
        with self._lock:
            name, count = self._written.pop(key, ("", 0))
            name = name or f"{metadata['name']}.{uuid.uuid4().hex[:16]}"
            self._written[key] = (name, count + 1)
            while len(self._written) > _REMEMBERED:
                self._written.popitem(last=False)
        try:
            self._write(about, kind, reason, message, name=name, count=count + 1)
        except ClusterError as error:
            with self._lock:
                self._written.pop(key, None)
            if count and error.is_not_found:  # the server drops an event after an hour
                self.record(about, kind, reason, message)
                return
            log.warning("event %s not written: %s", reason, error)

    def _write(
        self,
        about: Mapping[str, Any],
        kind: EventType,
        reason: str,
        message: str,
        *,
        name: str,
        count: int,
    ) -> None:
        metadata, now = about["metadata"], format_instant(self._now_ns())
        namespace = metadata["namespace"]
        if count > 1:
            self._cluster.patch(EVENT, (namespace, name), {"count": count, "lastTimestamp": now})
            return
        self._cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": {
                    "apiVersion": about["apiVersion"],
                    "kind": about["kind"],
                    "name": metadata["name"],
                    "namespace": namespace,
                    "uid": metadata.get("uid", ""),
                },
                "type": kind,
                "reason": reason,
                "message": message,
                "count": count,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "source": {"component": self._component},
                "reportingComponent": self._component,
                "reportingInstance": "",
            }
        )
