"""Read and follow the scaling of the consumers: replicas, HPAs, and the events with the reasons.

Samples of these come once a second; in between the watch reports changes.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from typing import Any, Literal

import msgspec
import psutil

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.kube_client import Event
from lagbench.core.hpa.controller_flags import metric_part, metric_text
from lagbench.core.kubernetes_values import NS_PER_SECOND, parse_milli
from lagbench.core.object_meta import LAST_APPLIED
from lagbench.core.policy.policy import POLICY_VERSIONS, Policy
from lagbench.core.scenario.scenario import Workload
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import (
    HpaSample,
    KubeEvent,
    ReadGap,
    ReplicaSample,
    ReplicasChanged,
    ReplicasWatched,
    ScaledObjectSample,
    ScalingObject,
    UsageSample,
)
from lagbench.errors import NotReady, WrongInput
from lagbench.programs.recorder.grid_sampler import Read
from lagbench.programs.recorder.pod_watch import ObjectWatch, present

_SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")
Events = Callable[[], Iterator[Event]]
Send = Callable[[Record], None]
ScalerKind = Literal["ScaledObject", "HorizontalPodAutoscaler"]
_EVENTS_HELD = 100  # of one object that may never prove to be the workload's
Scaler = tuple[str, str]
"""Kind and name."""


class OwnScalers:
    """Shared by the threads that read the objects and the one that reads the events."""

    def __init__(self) -> None:
        """Begin without a scaler."""
        self._lock = threading.Lock()
        self._known: set[Scaler] = set()
        self._held: dict[Scaler, deque[Callable[[], None]]] = defaultdict(
            lambda: deque(maxlen=_EVENTS_HELD)
        )

    def learn(self, kind: str, found: Mapping[str, Any]) -> None:
        """Take an object that targets the workload; its ScaledObject, if it has one, does too."""
        metadata = found["metadata"]
        owners = metadata.get("ownerReferences") or []
        own = {(kind, metadata["name"])}
        own |= {(o["kind"], o["name"]) for o in owners if o.get("kind") == "ScaledObject"}
        with self._lock:
            for scaler in own - self._known:
                self._known.add(scaler)
                for send in self._held.pop(scaler, ()):
                    send()

    def once_known(self, scaler: Scaler, send: Callable[[], None]) -> None:
        """Call ``send`` when the object is known to scale the workload, now or later."""
        with self._lock:
            if scaler in self._known:
                send()
            else:
                self._held[scaler].append(send)


@dataclass(frozen=True, slots=True)
class Scaled:
    """The workload whose scaling is recorded, how to read it, and where the records go."""

    name: str
    send: Send
    source: str
    open_kube: Callable[[], Kube]
    kind: Workload = "Deployment"
    scalers: OwnScalers = field(default_factory=OwnScalers)


class ReplicaWatch(ObjectWatch):
    """Sends a ReplicasChanged whenever the workload's wanted replicas changed.

    When the server ends a watch in order, half a minute after its list, a ReplicasWatched says that
    nothing was missed. One that breaks may have been deaf for long, so nothing is said of it.
    """

    def __init__(self, events: Events, scaled: Scaled) -> None:
        """Follow the workload itself."""

        def watched() -> Iterator[Event]:
            since_at: int | None = None
            for kind, found in events():
                if kind == "LISTED":
                    since_at = time.time_ns()
                elif kind == "ERROR":
                    since_at = None
                yield kind, found
            if since_at is not None:
                self._report(ReplicasWatched, time.time_ns(), since_at=since_at)

        super().__init__("replicas", watched, scaled.send, scaled.source, is_sampled=True)
        self._name = scaled.name
        self._replicas: int | None = None

    def take(self, kind: str, found: Mapping[str, Any], *, at: int) -> None:
        """Take one event of the watch."""
        for workload in present(kind, found):
            if workload["metadata"]["name"] != self._name:
                continue
            before, after = self._replicas, int(workload["spec"].get("replicas", 1))
            self._replicas = after
            if before not in (None, after):
                self._report(
                    ReplicasChanged,
                    at,
                    target=self._name,
                    replicas_before=before,
                    replicas_after=after,
                    manager=replicas_manager(workload),
                )


class ScalerWatch(ObjectWatch):
    """Sends a ScalingObject whenever spec or annotations of a scaler of the workload changed."""

    def __init__(self, kind: ScalerKind, events: Events, scaled: Scaled) -> None:
        """Follow the objects of ``kind`` on the workload, and learn which they are."""
        what: Literal["scaled_object", "hpa"] = "scaled_object" if kind == "ScaledObject" else "hpa"
        super().__init__(what, events, scaled.send, scaled.source, is_sampled=True)
        self._kind, self._name, self._scalers = kind, scaled.name, scaled.scalers
        self._stored: dict[str, tuple[object, ...]] = {}
        self._status: dict[str, HpaSample] = {}

    def take(self, kind: str, found: Mapping[str, Any], *, at: int) -> None:
        """Take one event of the watch."""
        there = set()
        for scaler in present(kind, found):
            metadata, spec = scaler["metadata"], scaler["spec"]
            if spec["scaleTargetRef"].get("name") != self._name:
                continue
            there.add(name := metadata["name"])
            self._scalers.learn(self._kind, scaler)
            annotations = dict(metadata.get("annotations") or {})
            annotations.pop(LAST_APPLIED, None)
            if self._stored.get(name) != (spec, annotations):
                self._stored[name] = (spec, annotations)
                self._report_stored(name, at, spec=spec, annotations=annotations)
            if self._kind == "HorizontalPodAutoscaler":
                seen = hpa_sample(scaler, at=at, source=self._source)
                matters = msgspec.structs.replace(seen, at=0)
                if self._status.get(name) != matters:
                    self._status[name] = matters
                    self._send(seen)
        told = set(self._stored)
        if kind != "LISTED":  # of one object: deleted, or with another target now
            told &= {(found.get("metadata") or {}).get("name")}
        for name in sorted(told - there):
            del self._stored[name]
            self._report_stored(name, at, spec=None, annotations={})

    def _report_stored(self, name: str, at: int, **stored: object) -> None:
        self._report(ScalingObject, at, object_kind=self._kind, name=name, **stored)


class EventWatch(ObjectWatch):
    """Sends the events of the workload's HPAs and ScaledObjects, and the pods' warnings."""

    def __init__(self, events: Events, scaled: Scaled, *, since_at: int) -> None:
        """Leave out what ended before ``since_at``: an earlier run's, kept for an hour.

        An event of a scaler waits until that is known as one of the workload.
        """
        super().__init__("events", events, scaled.send, scaled.source)
        self._name, self._scalers = scaled.name, scaled.scalers
        self._since_at = since_at // NS_PER_SECOND * NS_PER_SECOND
        self._reported: dict[str, tuple[object, ...]] = {}  # by uid

    def take(self, kind: str, found: Mapping[str, Any], *, at: int) -> None:
        """Take one event of the watch."""
        for event in present(kind, found):
            if not self._concerns(event):
                continue
            seen = kube_event(event, at=at, source=self._source)
            uid, matters = event["metadata"]["uid"], (seen.last_at, seen.count)
            is_old = seen.last_at is not None and seen.last_at < self._since_at
            if is_old or self._reported.get(uid) == matters:
                continue
            self._reported[uid] = matters
            if seen.object_kind in _SCALERS:
                scaler = (seen.object_kind, seen.object_name)
                self._scalers.once_known(scaler, partial(self._send, seen))
            else:
                self._send(seen)

    def _concerns(self, event: Mapping[str, Any]) -> bool:
        about = event.get("involvedObject") or {}
        if about.get("kind") in _SCALERS:
            return True
        name = str(about.get("name", ""))
        is_consumers = name == self._name or name.startswith(f"{self._name}-")
        return is_consumers and event.get("type") == "Warning"


def kube_event(event: Mapping[str, Any], *, at: int, source: str) -> KubeEvent:
    """Return a v1 Event as a record; its two forms (count, series) say the same."""
    about, series = event.get("involvedObject") or {}, event.get("series") or {}
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = event.get("lastTimestamp") or series.get("lastObservedTime") or event.get("eventTime")
    created = event["metadata"].get("creationTimestamp")
    return KubeEvent(
        at=at,
        source=source,
        object_kind=str(about.get("kind", "")),
        object_name=str(about.get("name", "")),
        type=str(event.get("type") or ""),
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or ""),
        count=int(event.get("count") or series.get("count") or 1),
        first_at=_instant(first or created),
        last_at=_instant(last or created),
    )


def replicas_manager(workload: Mapping[str, Any]) -> str:
    """Return the field manager that wrote spec.replicas last; empty if it is not recorded."""
    writers = [
        entry
        for entry in workload["metadata"].get("managedFields") or []
        if "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    ]
    if not writers:
        return ""
    newest = max(writers, key=lambda entry: str(entry.get("time", "")))
    return str(newest.get("manager", ""))


def _instant(text: str | None) -> int | None:
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    seconds = round(moment.replace(microsecond=0).timestamp())
    return seconds * NS_PER_SECOND + moment.microsecond * 1000


# What these read is an amount of work; of a Resource it is a share of the pods' own.
_AMOUNTS = ("External", "Object", "Pods")


def replica_reading(scaled: Scaled) -> Read:
    """Return the reading of the workload's wanted, existing and ready replicas.

    The first one opens the connection. No workload is not zero replicas: that raises ``NotReady``.
    """
    kube = cache(scaled.open_kube)

    def read(at: int) -> Iterable[Record]:
        found = kube().get(scaled.kind, scaled.name)
        if found is None:
            raise NotReady(f"there is no {scaled.kind} {scaled.name}")
        status = found.get("status") or {}
        return [
            ReplicaSample(
                at=at,
                source=scaled.source,
                spec=int(found["spec"].get("replicas", 1)),
                current=int(status.get("replicas") or 0),  # Kubernetes leaves zeros out
                ready=int(status.get("readyReplicas") or 0),
                available=int(status.get("availableReplicas") or 0),
            )
        ]

    return read


def scaler_reading(kind: ScalerKind, scaled: Scaled) -> Read:
    """Return the reading of every scaler of the workload; it learns which they are."""
    kube = cache(scaled.open_kube)
    sample = hpa_sample if kind != "ScaledObject" else scaled_object_sample

    def read(at: int) -> Iterable[Record]:
        found = kube().list(kind)
        own = [one for one in found if one["spec"]["scaleTargetRef"].get("name") == scaled.name]
        for one in own:
            scaled.scalers.learn(kind, one)
            # Known without the right to list HPAs.
            if name := (one.get("status") or {}).get("hpaName"):
                scaled.scalers.learn("HorizontalPodAutoscaler", {"metadata": {"name": name}})
        return [sample(one, at=at, source=scaled.source) for one in own]

    return read


def scaled_object_sample(scaled: Mapping[str, Any], *, at: int, source: str) -> ScaledObjectSample:
    """Return a ScaledObject as a record; without targets if KEDA would reject them."""
    name, kind = scaled["metadata"]["name"], "ScaledObject"
    manifest = {**scaled, "apiVersion": POLICY_VERSIONS[kind], "kind": kind}
    sample = ScaledObjectSample(
        at=at, source=source, name=name, conditions=_conditions(scaled.get("status") or {})
    )
    try:
        limits = Policy.read(manifest, where=f"ScaledObject {name}").limits
    except WrongInput:
        return sample
    return msgspec.structs.replace(
        sample,
        scales_at_records=limits.scales_at_records,
        group_target_records=limits.group_target_records,
        tolerance=limits.tolerances.up,
    )


def hpa_sample(hpa: Mapping[str, Any], *, at: int, source: str) -> HpaSample:
    """Return an HPA's status as a record; what the status lacks is None or empty."""
    status = hpa.get("status") or {}
    scaled_at = status.get("lastScaleTime")
    return HpaSample(
        at=at,
        source=source,
        name=hpa["metadata"]["name"],
        desired=status.get("desiredReplicas"),
        current=status.get("currentReplicas"),
        metrics=[metric_text(metric, "current") for metric in status.get("currentMetrics") or []],
        targets=[metric_text(metric, "target") for metric in hpa["spec"].get("metrics") or []],
        conditions=_conditions(status),
        totals=_totals(status),
        min_replicas=hpa["spec"].get("minReplicas"),
        max_replicas=hpa["spec"].get("maxReplicas"),
        last_scaled_at=None
        if scaled_at is None
        else round(datetime.fromisoformat(scaled_at).timestamp()) * 1_000_000_000,
    )


def _conditions(status: Mapping[str, Any]) -> list[str]:
    return [
        f"{condition['type']}={condition['status']} {condition.get('reason', '')}".rstrip()
        for condition in status.get("conditions") or []
    ]


def _totals(status: Mapping[str, Any]) -> dict[str, float]:
    """Return what each metric came to over all pods; the status may hold the average only."""
    replicas, found = status.get("currentReplicas"), dict[str, float]()
    for metric in status.get("currentMetrics") or []:
        name, current = metric_part(metric, "current")
        if metric.get("type") not in _AMOUNTS:
            continue
        if "value" in current:
            found[name] = _amount(current["value"], name)
        elif "averageValue" in current and replicas is not None:
            found[name] = _amount(current["averageValue"], name) * replicas
    return found


def _amount(quantity: str, name: str) -> float:
    return parse_milli(quantity, where="HPA status", field=name) / 1000


class UsageReading:
    """One sample per observed process; a process that has gone is a gap of its own."""

    def __init__(self, pids: Mapping[str, int], *, source: str) -> None:
        """Observe ``pids`` (by component name); which process each is, is fixed now."""
        self._source = source
        self._processes: dict[str, psutil.Process | None] = {}
        for component, pid in pids.items():
            try:
                self._processes[component] = psutil.Process(pid)
            except psutil.NoSuchProcess:
                self._processes[component] = None

    def __call__(self, at: int) -> Iterable[Record]:
        """Return a sample or a gap for each."""
        return [self._read(at, *item) for item in self._processes.items()]

    def _read(self, at: int, component: str, process: psutil.Process | None) -> Record:
        if process is not None:
            try:
                if process.is_running():  # tells a reused number apart
                    cpu, memory = process.cpu_times(), process.memory_info()
                    return UsageSample(
                        at=at,
                        source=self._source,
                        component=component,
                        cpu_seconds=cpu.user + cpu.system,
                        memory_bytes=memory.rss,
                    )
            except psutil.Error as error:
                return self._gap(at, f"{component}: {error}")
        return self._gap(at, f"{component}: the process does not run")

    def _gap(self, at: int, reason: str) -> ReadGap:
        return ReadGap(at=at, source=self._source, what="usage", reason=reason)
