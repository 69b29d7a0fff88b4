"""Share the parts of all workers: the API, the clock, events, telemetry and the directory."""

from __future__ import annotations

from dataclasses import dataclass, field

from lagbench.adapters.kube.cluster_protocol import Cluster
from lagbench.core.hpa import HpaSettings
from lagbench.programs.autoscaler.clocks import Clock, HpaClock
from lagbench.programs.autoscaler.directory import Directory
from lagbench.programs.autoscaler.event_recorder import EventRecorder
from lagbench.programs.autoscaler.sources.trigger_sources import LiveSources, TriggerSources
from lagbench.programs.autoscaler.telemetry_router import TelemetryRouter

_KEDA, _HPA = "keda-operator", "horizontal-pod-autoscaler"


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The parts that all workers share."""

    cluster: Cluster
    directory: Directory
    keda_events: EventRecorder
    hpa_events: EventRecorder
    telemetry: TelemetryRouter
    sources: TriggerSources
    clock: Clock = field(default_factory=Clock)
    hpa_clock: HpaClock = field(default_factory=HpaClock)
    hpa_settings: HpaSettings = field(default_factory=HpaSettings)


def make_context(
    cluster: Cluster,
    *,
    clock: Clock | None = None,
    hpa_clock: HpaClock | None = None,
    hpa_settings: HpaSettings | None = None,
    sources: TriggerSources | None = None,
    telemetry: TelemetryRouter | None = None,
    component: str = "",
) -> WorkerContext:
    """Return the shared parts over one cluster.

    ``component``: who reports the events; empty: KEDA's operator and the HPA's controller.
    """
    clock = clock or Clock()
    return WorkerContext(
        cluster=cluster,
        directory=Directory(),
        keda_events=EventRecorder(cluster, component or _KEDA, clock.wall_ns),
        hpa_events=EventRecorder(cluster, component or _HPA, clock.wall_ns),
        telemetry=telemetry or TelemetryRouter(),
        sources=sources or LiveSources(cluster, clock.wall_ns),
        clock=clock,
        hpa_clock=hpa_clock or HpaClock(),
        hpa_settings=hpa_settings or HpaSettings(),
    )
