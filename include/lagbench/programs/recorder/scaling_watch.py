"""Follow the scaling of the consumers: desired replicas, HPAs and the events with the reasons.

Samples of these come once a second; in between the watch reports changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Literal

import msgspec

from lagbench.adapters.kube.client.api_discovery import Event
from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import (
    HpaSample,
    KubeEvent,
    ReplicasChanged,
    ReplicasWatched,
    ScalingObject,
)
from lagbench.programs.recorder.kube_readings import OwnScalers, ScalerKind, hpa_sample
from lagbench.programs.recorder.pod_watch import ObjectWatch, present

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")

Events = Callable[[], Iterator[Event]]
Send = Callable[[Record], None]


class ReplicaWatch(ObjectWatch):
    """Sends a ReplicasChanged whenever the workload's wanted replicas changed.

    When the server ends a watch in order, half a minute after its list, a ReplicasWatched says that
    nothing was missed. One that breaks may have been deaf for long, so nothing is said of it.
    """

    def __init__(self, events: Events, send: Send, source: str, *, deployment: str) -> None:
        """Follow ``deployment``."""

        def watched() -> Iterator[Event]:
            since_at: int | None = None
            for kind, found in events():
                if kind == "LISTED":
                    since_at = time.time_ns()
                elif kind == "ERROR":
                    since_at = None
                yield kind, found
            if since_at is not None:
                send(ReplicasWatched(at=time.time_ns(), source=source, since_at=since_at))

        super().__init__("replicas", watched, send, source, is_sampled=True)
        self._deployment = deployment
        self._replicas: int | None = None

    def take(self, kind: str, found: Mapping[str, Any], *, at: int) -> None:
        """Take one event of the watch."""
        for workload in present(kind, found):
            if workload["metadata"]["name"] != self._deployment:
                continue
            before, after = self._replicas, int(workload["spec"].get("replicas", 1))
            self._replicas = after
            if before not in (None, after):
                self._report(
                    ReplicasChanged,
                    at,
                    target=self._deployment,
                    replicas_before=before,
                    replicas_after=after,
                    manager=replicas_manager(workload),
                )


class ScalerWatch(ObjectWatch):
    """Sends a ScalingObject whenever spec or annotations of a scaler of the workload changed."""

    def __init__(
        self,
        kind: ScalerKind,
        events: Events,
        send: Send,
        source: str,
        *,
        deployment: str,
        scalers: OwnScalers,
    ) -> None:
        """Follow the objects of ``kind`` on ``deployment``, and name them to ``scalers``."""
        what: Literal["scaled_object", "hpa"] = "scaled_object" if kind == "ScaledObject" else "hpa"
        super().__init__(what, events, send, source, is_sampled=True)
        self._kind, self._deployment, self._scalers = kind, deployment, scalers
        self._stored: dict[str, tuple[object, ...]] = {}
        self._status: dict[str, HpaSample] = {}

    def take(self, kind: str, found: Mapping[str, Any], *, at: int) -> None:
        """Take one event of the watch."""
        there = set()
        for scaler in present(kind, found):
            metadata, spec = scaler["metadata"], scaler["spec"]
            if spec["scaleTargetRef"].get("name") != self._deployment:
                continue
            there.add(name := metadata["name"])
            self._scalers.learn(self._kind, scaler)
            annotations = dict(metadata.get("annotations") or {})
            annotations.pop(_LAST_APPLIED, None)
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

    def __init__(
        self,
        events: Events,
        send: Send,
        source: str,
        *,
        deployment: str,
        scalers: OwnScalers,
        since_at: int,
    ) -> None:
        """Leave out what ended before ``since_at``: an earlier run's, kept for an hour.

        An event of a scaler waits until ``scalers`` knows it as one of the workload.
        """
        super().__init__("events", events, send, source)
        self._deployment, self._scalers = deployment, scalers
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
        is_consumers = name == self._deployment or name.startswith(f"{self._deployment}-")
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
