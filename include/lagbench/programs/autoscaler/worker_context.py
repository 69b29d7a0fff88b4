"""Share between all workers: the cluster, the clocks, the latest objects, telemetry."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.adapters.kube.cluster_protocol import (
    HPA,
    SCALED_OBJECT,
    Cluster,
    Kind,
    Manifest,
    ObjectKey,
    Snapshot,
    key_of,
)
from lagbench.core.hpa.hpa_object import ScaleTarget
from lagbench.core.hpa.hpa_sync import HpaSettings
from lagbench.core.kubernetes.kubernetes_values import HPA_SYNC_SECONDS
from lagbench.core.scenario.run_names import (
    BOOTSTRAP_ANNOTATION,
    RUN_ID_ANNOTATION,
    TELEMETRY_TOPIC_ANNOTATION,
)
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.errors import NotReady
from lagbench.programs.autoscaler.trigger_sources import LiveSources

log = logging.getLogger(__name__)

SOURCE = "autoscaler"

_FLUSH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Clock:
    """Wall time for stamps, monotonic time for waits."""

    wall_ns: Callable[[], int] = time.time_ns
    monotonic_seconds: Callable[[], float] = time.monotonic


class TelemetryRouter:
    """Sends records where an object's annotations say; one producer per run, opened when needed."""

    def __init__(self, open_log: Callable[[str, str], TelemetryLog] = TelemetryLog) -> None:
        """Open logs with ``open_log(bootstrap_servers, topic)``."""
        self._open_log = open_log
        self._logs: dict[tuple[str, str], TelemetryLog] = {}
        self._lock = threading.Lock()

    def send(self, manifest: Mapping[str, Any], record: Record) -> None:
        """Send ``record`` unless the object belongs to no run; trouble is logged, never raised."""
        place = _place(manifest)
        if place is None:
            return
        try:
            with self._lock:
                if place not in self._logs:
                    self._logs[place] = self._open_log(*place)
                target = self._logs[place]
            target.send(record)
        except Exception:
            log.exception("telemetry record lost")

    def keep_only(self, manifests: list[Manifest]) -> None:
        """Flush and drop the logs that none of the objects names any more."""
        wanted = {_place(manifest) for manifest in manifests}
        with self._lock:
            gone = [self._logs.pop(place) for place in list(self._logs) if place not in wanted]
        for item in gone:
            item.flush(_FLUSH_SECONDS)


def _place(manifest: Mapping[str, Any]) -> tuple[str, str] | None:
    given = manifest["metadata"].get("annotations") or {}
    servers, topic = given.get(BOOTSTRAP_ANNOTATION), given.get(TELEMETRY_TOPIC_ANNOTATION)
    return (servers, topic) if given.get(RUN_ID_ANNOTATION) and servers and topic else None


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The parts that all workers share; snapshots are replaced whole, so readers need no lock."""

    cluster: Cluster
    sources: LiveSources
    clock: Clock = field(default_factory=Clock)
    hpa_sync_seconds: float = float(HPA_SYNC_SECONDS)
    hpa_settings: HpaSettings = field(default_factory=HpaSettings)
    telemetry: TelemetryRouter = field(default_factory=TelemetryRouter)
    component: str = ""
    """Who reports the events; empty: KEDA's operator and the HPA's controller."""
    objects: dict[Kind, Snapshot] = field(default_factory=lambda: {SCALED_OBJECT: {}, HPA: {}})
    metrics: dict[ObjectKey, Callable[[str], int]] = field(default_factory=dict)
    """What reads the external metrics of a ScaledObject, in thousandths, by their names."""

    def read_metric_milli(self, key: ObjectKey, name: str) -> int:
        """Return an external metric of the ScaledObject ``key`` now; ``NotReady`` without one."""
        if key not in self.metrics:
            raise NotReady(f"no ScaledObject {'/'.join(key)} serves metrics")
        return self.metrics[key](name)

    def other_owner(self, manifest: Manifest, target: ScaleTarget) -> str | None:
        """Return what scales ``target`` already; of two ScaledObjects the older one does."""
        namespace, name = key_of(manifest)
        for kind, snapshot in self.objects.items():
            for key, other in sorted(snapshot.items()):
                given = (other.get("spec") or {}).get("scaleTargetRef") or {}
                points_at = (key[0], given.get("name"), given.get("kind") or "Deployment")
                if points_at != (namespace, target.name, target.kind):
                    continue
                if kind == SCALED_OBJECT:
                    is_owner = key[1] != name and _age(other) < _age(manifest)
                else:
                    owners = other["metadata"].get("ownerReferences") or []
                    is_owner = not any(item.get("kind") == SCALED_OBJECT[1] for item in owners)
                if is_owner:
                    return f"{target.kind} {target.name} is scaled by the {kind[1]} '{key[1]}'"
        return None


def _age(manifest: Manifest) -> tuple[str, str]:
    return manifest["metadata"].get("creationTimestamp", ""), manifest["metadata"]["name"]
