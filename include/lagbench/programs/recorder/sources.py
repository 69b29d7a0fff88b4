"""Put the recorder's sources together, each in a thread of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from lagbench.adapters.kafka.client_settings import own_settings
from lagbench.adapters.kube.client.kube_connection import log_in
from lagbench.adapters.kube.client.object_events import Event, WatchTimes, list_and_watch
from lagbench.adapters.kube.kube import Kube
from lagbench.core.scenario import Workload
from lagbench.core.telemetry import Record, What
from lagbench.programs.recorder.clock_probe import ClockProbe
from lagbench.programs.recorder.kafka_readings import GroupReading, LagReading
from lagbench.programs.recorder.kube_readings import (
    HpaReading,
    ReplicaReading,
    ScaledObjectReading,
)
from lagbench.programs.recorder.node_clocks import ClockSources
from lagbench.programs.recorder.object_watch import ObjectWatch
from lagbench.programs.recorder.own_scalers import OwnScalers
from lagbench.programs.recorder.pod_watch import PodWatch
from lagbench.programs.recorder.sampling_grid import GridSampler, Read
from lagbench.programs.recorder.scaling_watch import (
    EventWatch,
    ReplicaWatch,
    ScalerKind,
    ScalerWatch,
)
from lagbench.programs.recorder.settings import RecorderOptions
from lagbench.programs.recorder.usage_readings import UsageReading

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_KUBE_TIMEOUT_SECONDS = 2.0
_WATCH_TIMES = WatchTimes(list_seconds=5.0, watch_seconds=30, overdue_seconds=5.0)


def build_sources(
    options: RecorderOptions, environment: Mapping[str, str], send: Callable[[Record], None]
) -> Sequence[GridSampler | ObjectWatch | ClockProbe]:
    """Return the threads, not started."""
    # Importing the Kubernetes client takes a second or two: before the grid starts, not on it.
    import_module("kubernetes.dynamic")
    source, settings = options.source, own_settings(options.bootstrap_servers, environment)
    is_in_cluster = "KUBECONFIG" not in environment

    def open_client() -> ApiClient:
        return log_in(
            is_in_cluster=is_in_cluster,
            retries=0,  # the next second reads again
            advice="Set KUBECONFIG, or run in a pod with a service account",
        )

    def open_kube() -> Kube:
        return Kube(
            open_client(),
            namespace=options.namespace,
            request_timeout_seconds=_KUBE_TIMEOUT_SECONDS,
        )

    group = GroupReading(settings, group=options.group, topic=options.topic, source=source)
    scalers = OwnScalers()
    pids = {"recorder": os.getpid(), **options.observed_pids}
    reads: dict[What, Read] = {
        "lag": LagReading(settings, group=options.group, topic=options.topic, source=source),
        "group": group,
        "replicas": ReplicaReading(
            open_kube, deployment=options.deployment, source=source, workload=options.workload
        ),
        "hpa": HpaReading(open_kube, deployment=options.deployment, source=source, scalers=scalers),
        "scaled_object": ScaledObjectReading(
            open_kube, deployment=options.deployment, source=source, scalers=scalers
        ),
        "usage": UsageReading(pids, source=source),
    }
    interval_ns = round(options.interval_seconds * 1e9)
    origin_at = time.time_ns()
    samplers = grid_of(reads, group, send, source, origin_at=origin_at, interval_ns=interval_ns)
    watched = Watched(
        options.namespace,
        options.deployment,
        options.workload,
        options.pod_selector,
        source,
        has_own_policy=True,
    )
    watches = watches_of(watched, open_client, send, scalers, since_at=origin_at)
    return [*samplers, *watches, *clocks_of(source, open_client, open_kube, send)]


def grid_of(
    reads: Mapping[What, Read],
    group: GroupReading,
    send: Callable[[Record], None],
    source: str,
    *,
    origin_at: int,
    interval_ns: int,
) -> list[GridSampler]:
    """Return a sampler of each reading, not started; a group in a rebalance is read more often."""
    return [
        GridSampler(
            what,
            read,
            send=send,
            source=source,
            origin_at=origin_at,
            interval_ns=interval_ns,
            is_changing=group.is_rebalancing if read is group else lambda: False,
        )
        for what, read in reads.items()
    ]


@dataclass(frozen=True, slots=True)
class Watched:
    """The workload that is watched, its pods, and the name under which they are reported."""

    namespace: str
    deployment: str
    workload: Workload
    pod_selector: str
    source: str
    has_own_policy: bool = False
    """True: ScaledObjects are watched, too, which takes a right that an observer may not have."""


def watches_of(
    watched: Watched,
    open_client: Callable[[], ApiClient],
    send: Callable[[Record], None],
    scalers: OwnScalers,
    *,
    since_at: int,
) -> list[ObjectWatch]:
    """Return the watches of the workload, its pods, its HPAs and events, not started."""
    source, deployment, place = watched.source, watched.deployment, watched.namespace

    def events_of(path: str, **selection: str) -> Callable[[], Iterator[Event]]:
        @cache
        def client() -> ApiClient:
            return open_client()

        return lambda: list_and_watch(client(), path, _WATCH_TIMES, selection=selection)

    named = f"metadata.name={deployment}"
    pods = events_of(f"/api/v1/namespaces/{place}/pods", labelSelector=watched.pod_selector)
    kind = f"{watched.workload.lower()}s"
    workloads = events_of(f"/apis/apps/v1/namespaces/{place}/{kind}", fieldSelector=named)
    hpas = events_of(f"/apis/autoscaling/v2/namespaces/{place}/horizontalpodautoscalers")
    kinds: dict[ScalerKind, Callable[[], Iterator[Event]]] = {"HorizontalPodAutoscaler": hpas}
    if watched.has_own_policy:
        path = f"/apis/keda.sh/v1alpha1/namespaces/{place}/scaledobjects"
        kinds["ScaledObject"] = events_of(path)
    kube_events = events_of(f"/api/v1/namespaces/{place}/events")
    return [
        PodWatch(pods, send, source),
        ReplicaWatch(workloads, send, source, deployment=deployment),
        *(
            ScalerWatch(kind, events, send, source, deployment=deployment, scalers=scalers)
            for kind, events in kinds.items()
        ),
        EventWatch(
            kube_events, send, source, deployment=deployment, scalers=scalers, since_at=since_at
        ),
    ]


def clocks_of(
    source: str,
    open_client: Callable[[], ApiClient],
    open_kube: Callable[[], Kube],
    send: Callable[[Record], None],
) -> list[ClockProbe]:
    """Return the probe of the cluster's clocks; on the embedded bench there is one clock."""
    clocks = ClockSources(open_client, open_kube)
    if clocks.is_on_this_machine():
        return []
    return [ClockProbe(clocks.ask_api_server, clocks.find_nodes, send=send, source=source)]
