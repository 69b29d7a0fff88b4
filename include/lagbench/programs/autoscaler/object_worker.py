"""The reports of the autoscaler on an object: its status with conditions, and Events."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.adapters.kube.followed_cluster import (
    EVENT,
    HPA,
    SCALED_OBJECT,
    Cluster,
    ClusterError,
    Kind,
    Manifest,
    ObjectKey,
    Snapshot,
    key_of,
)
from lagbench.core.hpa.hpa_object import ScaleTarget
from lagbench.core.hpa.hpa_sync import Condition, HpaSettings
from lagbench.core.kubernetes_values import HPA_SYNC_SECONDS, format_instant
from lagbench.core.scenario.run_names import (
    BOOTSTRAP_ANNOTATION,
    RUN_ID_ANNOTATION,
    TELEMETRY_TOPIC_ANNOTATION,
)
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.errors import NotReady
from lagbench.programs.autoscaler.trigger_sources import LiveSources

log = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]

_REMEMBERED = 1000


def condition_of(status: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the condition of a type; empty when there is none."""
    found = (item for item in status.get("conditions") or [] if item.get("type") == kind)
    return next(found, {})


class StatusWriter:
    """The only writer of an object's status; its users may be several threads.

    It knows what it wrote, so that a late watch cannot undo a condition.
    """

    def __init__(self, cluster: Cluster, kind: Kind, manifest: Manifest) -> None:
        """Begin with the status that the object has."""
        self._cluster = cluster
        self._kind = kind
        self._key = key_of(manifest)
        self.status: dict[str, Any] = dict(manifest.get("status") or {})
        self._lock = threading.Lock()

    def is_true(self, condition: str) -> bool:
        """Return whether a condition is there and True."""
        found = self.status.get("conditions") or []
        return any((one["type"], one["status"]) == (condition, "True") for one in found)

    def write(
        self, fields: dict[str, Any], changes: Iterable[Condition], *, now_ns: int | None = None
    ) -> None:
        """Write what changed; a field of None is removed.

        ``now_ns``: the lastTransitionTime of conditions whose status changes; KEDA's have none.
        """
        with self._lock:
            conditions = {item["type"]: dict(item) for item in self.status.get("conditions") or []}
            for change in changes:
                old = conditions.get(change.type, {})
                new = {"type": change.type, "status": change.status}
                if now_ns is not None:
                    is_same = old.get("status") == change.status and "lastTransitionTime" in old
                    new["lastTransitionTime"] = (
                        old["lastTransitionTime"] if is_same else format_instant(now_ns)
                    )
                said = {"reason": change.reason, "message": change.message}
                conditions[change.type] = new | {key: text for key, text in said.items() if text}
            whole = {**fields, "conditions": list(conditions.values())}
            changed = {key: value for key, value in whole.items() if self.status.get(key) != value}
            if changed:
                self._cluster.patch(
                    self._kind, self._key, {"status": changed}, subresource="status"
                )
                self.status.update(changed)


class EventRecorder:
    """Writes events; the same text again raises the count of the one before."""

    def __init__(self, cluster: Cluster, component: str, now_ns: Callable[[], int]) -> None:
        """Write as ``component``; empty: as KEDA's operator and the HPA's controller."""
        self._cluster = cluster
        self._component = component
        self._now_ns = now_ns
        self._written: OrderedDict[tuple[str, ...], tuple[str, int]] = OrderedDict()
        self._lock = threading.Lock()

    def record(self, about: Manifest, kind: EventType, reason: str, message: str) -> None:
        """Record one event about an object; a failure is logged and forgotten."""
        key = (about["metadata"].get("uid", ""), kind, reason, message)
        with self._lock:
            name, count = self._written.pop(key, ("", 0))
            name = name or f"{about['metadata']['name']}.{uuid.uuid4().hex[:16]}"
            self._written[key] = (name, count + 1)
            while len(self._written) > _REMEMBERED:
                self._written.popitem(last=False)
        now, namespace = format_instant(self._now_ns()), key_of(about)[0]
        try:
            if count:
                change = {"count": count + 1, "lastTimestamp": now}
                self._cluster.patch(EVENT, (namespace, name), change)
            else:
                self._cluster.create(
                    {
                        "metadata": {"name": name, "namespace": namespace},
                        **self._head(about),
                        "type": kind,
                        "reason": reason,
                        "message": message,
                        "count": 1,
                        "firstTimestamp": now,
                        "lastTimestamp": now,
                    }
                )
        except ClusterError as error:
            with self._lock:
                self._written.pop(key, None)
            if count and error.is_not_found:  # the server drops an event after an hour
                self.record(about, kind, reason, message)
            else:
                log.warning("event %s not written: %s", reason, error)

    def _head(self, about: Manifest) -> dict[str, Any]:
        is_hpas = about["kind"] == HPA[1]
        component = self._component or ("horizontal-pod-autoscaler" if is_hpas else "keda-operator")
        return {
            "apiVersion": EVENT[0],
            "kind": EVENT[1],
            "involvedObject": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "name": about["metadata"]["name"],
                "namespace": key_of(about)[0],
                "uid": about["metadata"].get("uid", ""),
            },
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
        }


_AFTER_ERROR_SECONDS = 1.0


class Worker(threading.Thread, ABC):
    """Runs ``step`` for one object (one uid) again and again; each says when the next is due."""

    kind: ClassVar[Kind]

    def __init__(self, manifest: Manifest, context: WorkerContext) -> None:
        """Take the object up; nothing happens before ``start``."""
        self.key, self.latest, self.context = key_of(manifest), manifest, context
        # Daemon: the process may end at once on SIGTERM, whatever a broker keeps a thread from.
        super().__init__(name=f"{self.kind[1]} {'/'.join(self.key)}", daemon=True)
        self.status = StatusWriter(context.cluster, self.kind, manifest)
        self._events = EventRecorder(context.cluster, context.component, context.clock.wall_ns)
        self._woken = threading.Event()
        self._is_over = threading.Event()
        self._is_abandoned = False

    def wake(self) -> None:
        """Have the next step now."""
        self._woken.set()

    def stop(self) -> None:
        """Have no further step; one that is under way ends by itself."""
        self._is_over.set()
        self._woken.set()

    def abandon(self) -> None:
        """End without ``finish``: the object stays, only this process goes."""
        self._is_abandoned = True
        self.stop()

    def is_of(self, manifest: Manifest) -> bool:
        """Return whether it is the object that was taken up, not one created again."""
        return bool(manifest["metadata"].get("uid") == self.latest["metadata"].get("uid"))

    def event(self, kind: EventType, reason: str, message: str) -> None:
        """Record an event about the object as it is by now."""
        self._events.record(self.latest, kind, reason, message)

    def update(self, manifest: Manifest) -> bool:
        """Take a newer version; True: its spec is another."""
        is_other = manifest.get("spec") != self.latest.get("spec")
        self.latest = manifest
        return is_other

    @abstractmethod
    def step(self) -> float:
        """Do what is due and return the seconds until the next step."""

    @abstractmethod
    def finish(self) -> None:
        """Do what is left to do once stopped."""

    def run(self) -> None:
        """Work until stopped."""
        while not self._is_over.is_set():
            self._woken.clear()
            try:
                delay_seconds = self.step()
            except Exception:
                log.exception("%s: step failed, continuing", self.name)
                delay_seconds = _AFTER_ERROR_SECONDS
            if not self._is_over.is_set():
                self._woken.wait(max(0.0, delay_seconds))
        try:
            if not self._is_abandoned:
                self.finish()
        except Exception:
            log.exception("%s: end failed", self.name)


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
    """The reporter of the events; empty: KEDA's operator and the HPA's controller."""
    objects: dict[Kind, Snapshot] = field(default_factory=lambda: {SCALED_OBJECT: {}, HPA: {}})
    metrics: dict[ObjectKey, Callable[[str], int]] = field(default_factory=dict)
    """The reader of the external metrics of a ScaledObject, in thousandths, by their names."""

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
