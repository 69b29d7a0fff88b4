"""Read a run from Kubernetes: the consumers' replicas, and the HPA that drives it."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Literal

import msgspec
import psutil

from lagbench.adapters.kube.kube import Kube
from lagbench.core.hpa.controller_flags import metric_part, metric_text
from lagbench.core.kubernetes_values import parse_milli
from lagbench.core.policy.policy import POLICY_VERSIONS, Policy
from lagbench.core.scenario.scenario import Workload
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import (
    HpaSample,
    ReadGap,
    ReplicaSample,
    ScaledObjectSample,
    UsageSample,
)
from lagbench.errors import NotReady, WrongInput
from lagbench.programs.recorder.sampling_grid import Read

ScalerKind = Literal["ScaledObject", "HorizontalPodAutoscaler"]

# What these read is an amount of work; of a Resource it is a share of the pods' own.
_AMOUNTS = ("External", "Object", "Pods")


def replica_reading(
    open_kube: Callable[[], Kube],
    *,
    deployment: str,
    source: str,
    workload: Workload = "Deployment",
) -> Read:
    """Return the reading of the workload's wanted, existing and ready replicas.

    The first one opens the connection. No workload is not zero replicas: that raises ``NotReady``.
    """
    kube = cache(open_kube)

    def read(at: int) -> Iterable[Record]:
        found = kube().get(workload, deployment)
        if found is None:
            raise NotReady(f"there is no {workload} {deployment}")
        status = found.get("status") or {}
        return [
            ReplicaSample(
                at=at,
                source=source,
                spec=int(found["spec"].get("replicas", 1)),
                current=int(status.get("replicas") or 0),  # Kubernetes leaves zeros out
                ready=int(status.get("readyReplicas") or 0),
                available=int(status.get("availableReplicas") or 0),
            )
        ]

    return read


def scaler_reading(
    kind: ScalerKind,
    open_kube: Callable[[], Kube],
    *,
    deployment: str,
    source: str,
    scalers: OwnScalers,
) -> Read:
    """Return the reading of every scaler of the workload; it names them to ``scalers``."""
    kube, sample = cache(open_kube), hpa_sample if kind != "ScaledObject" else scaled_object_sample

    def read(at: int) -> Iterable[Record]:
        found = kube().list(kind)
        own = [one for one in found if one["spec"]["scaleTargetRef"].get("name") == deployment]
        for one in own:
            scalers.learn(kind, one)
            # Known without the right to list HPAs.
            if name := (one.get("status") or {}).get("hpaName"):
                scalers.learn("HorizontalPodAutoscaler", {"metadata": {"name": name}})
        return [sample(one, at=at, source=source) for one in own]

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
        tolerance=limits.flags.tolerance_in_force,
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
