"""Put the sources of a recorder together, each in a thread of its own."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from lagbench.adapters.kube.client.api_discovery import Event, WatchTimes, list_and_watch
from lagbench.adapters.kube.client.kube_errors import log_in
from lagbench.adapters.kube.kube import Kube
from lagbench.core.measures.evidence.group_events import STOPPING_PHASE
from lagbench.core.scenario.scenario import Workload
from lagbench.core.telemetry.records import encode_record
from lagbench.core.telemetry.records_of_programs import Phase, Record
from lagbench.core.telemetry.records_of_recorder import What
from lagbench.errors import NotReady
from lagbench.programs.clock_watch import ClockWatch
from lagbench.programs.recorder.cluster_clocks import ClockProbe, ClockSources
from lagbench.programs.recorder.kafka_readings import GroupReading, LagReading
from lagbench.programs.recorder.kube_readings import (
    OwnScalers,
    ScalerKind,
    UsageReading,
    replica_reading,
    scaler_reading,
)
from lagbench.programs.recorder.pod_watch import ObjectWatch, PodWatch
from lagbench.programs.recorder.recorder_settings import RecorderOptions
from lagbench.programs.recorder.sampling_grid import GridSampler, Read, SourceThread
from lagbench.programs.recorder.scaling_watch import (
    EventWatch,
    ReplicaWatch,
    ScalerWatch,
)
from pod_program.kafka_settings import own_settings

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_KUBE_TIMEOUT_SECONDS = 2.0

_WATCH_TIMES = WatchTimes(list_seconds=5.0, watch_seconds=30, overdue_seconds=5.0)

Send = Callable[[Record], None]

Sources = list[SourceThread]


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


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """Where the group's workload runs, and how to log in there; each thread has its own client."""

    watched: Watched
    open_client: Callable[[], ApiClient]
    has_scaled_object: bool


def recorder_sources(
    options: RecorderOptions, environment: Mapping[str, str], send: Send
) -> Sources:
    """Return the threads of a run's recorder, not started."""
    # Importing the Kubernetes client takes a second or two: before the grid starts, not on it.
    import_module("kubernetes.dynamic")

    def open_client() -> ApiClient:
        return log_in(
            is_in_cluster="KUBECONFIG" not in environment,
            retries=0,  # the next second reads again
            advice="Set KUBECONFIG, or run in a pod with a service account",
        )

    watched = Watched(
        options.namespace,
        options.deployment,
        options.workload,
        options.pod_selector,
        options.source,
        has_own_policy=True,
    )
    return sources_of(
        own_settings(options.bootstrap_servers, environment),
        send,
        group=options.group,
        topic=options.topic,
        source=options.source,
        pids=options.observed_pids,
        interval_ns=round(options.interval_seconds * 1e9),
        cluster=ObservedCluster(watched, open_client, has_scaled_object=True),
    )


def sources_of(
    settings: Mapping[str, Any],
    send: Send,
    *,
    group: str,
    topic: str,
    source: str,
    pids: Mapping[str, int],
    interval_ns: int,
    cluster: ObservedCluster | None,
) -> Sources:
    """Return the threads that read a group and, if one is given, its workload; not started.

    :param settings: librdkafka's, with the servers.
    :param pids: processes of the bench, whose cost is read beside this one's.
    """
    in_group = GroupReading(settings, group=group, topic=topic, source=source)
    reads: dict[What, Read] = {
        "lag": LagReading(settings, group=group, topic=topic, source=source),
        "group": in_group,
        "usage": UsageReading({"recorder": os.getpid(), **pids}, source=source),
    }
    origin_at = time.time_ns()
    threads: Sources = []
    if cluster is not None:
        watched, scalers = cluster.watched, OwnScalers()

        def open_kube() -> Kube:
            client = cluster.open_client()
            seconds = _KUBE_TIMEOUT_SECONDS
            return Kube(client, namespace=watched.namespace, request_timeout_seconds=seconds)

        name = watched.deployment
        reads["replicas"] = replica_reading(
            open_kube, deployment=name, source=source, workload=watched.workload
        )
        read_scalers: dict[What, ScalerKind] = {"hpa": "HorizontalPodAutoscaler"}
        if cluster.has_scaled_object:
            read_scalers["scaled_object"] = "ScaledObject"
        for what, kind in read_scalers.items():
            reads[what] = scaler_reading(
                kind, open_kube, deployment=name, source=source, scalers=scalers
            )
        threads += _watches(watched, cluster.open_client, send, scalers, since_at=origin_at)
        clocks = ClockSources(cluster.open_client, open_kube)
        if not clocks.is_on_this_machine():  # else there is one clock
            probe = ClockProbe(clocks.ask_api_server, clocks.find_nodes, send=send, source=source)
            threads.append(probe)
    for what, read in reads.items():
        sampler = GridSampler(
            what,
            read,
            send=send,
            source=source,
            origin_at=origin_at,
            interval_ns=interval_ns,
            # A group in a rebalance is read more often.
            is_changing=in_group.is_rebalancing if read is in_group else lambda: False,
        )
        threads.append(sampler)
    return threads


def _watches(
    watched: Watched,
    open_client: Callable[[], ApiClient],
    send: Send,
    scalers: OwnScalers,
    *,
    since_at: int,
) -> list[ObjectWatch]:
    """Return the watches of the workload, its pods, its HPAs and events."""
    source, deployment, place = watched.source, watched.deployment, watched.namespace

    def events_of(path: str, **selection: str) -> Callable[[], Iterator[Event]]:
        client = cache(open_client)
        return lambda: list_and_watch(client(), path, _WATCH_TIMES, selection=selection)

    kind = f"{watched.workload.lower()}s"
    pods = events_of(f"/api/v1/namespaces/{place}/pods", labelSelector=watched.pod_selector)
    workloads = events_of(
        f"/apis/apps/v1/namespaces/{place}/{kind}", fieldSelector=f"metadata.name={deployment}"
    )
    hpas = events_of(f"/apis/autoscaling/v2/namespaces/{place}/horizontalpodautoscalers")
    kinds: dict[ScalerKind, Callable[[], Iterator[Event]]] = {"HorizontalPodAutoscaler": hpas}
    if watched.has_own_policy:
        path = f"/apis/keda.sh/v1alpha1/namespaces/{place}/scaledobjects"
        kinds["ScaledObject"] = events_of(path)
    return [
        PodWatch(pods, send, source),
        ReplicaWatch(workloads, send, source, deployment=deployment),
        *(
            ScalerWatch(kind, events, send, source, deployment=deployment, scalers=scalers)
            for kind, events in kinds.items()
        ),
        EventWatch(
            events_of(f"/api/v1/namespaces/{place}/events"),
            send,
            source,
            deployment=deployment,
            scalers=scalers,
            since_at=since_at,
        ),
    ]


SOURCE = "observer"

_INTERVAL_NS = 1_000_000_000

_LOOK_SECONDS = 1.0


class RecordsFile:
    """A file with a record per line; a line is whole, or the last one.

    After a failed write nothing more is written: the threads that read continue, and the caller
    looks at ``problem``.
    """

    def __init__(self, path: Path) -> None:
        """Open the file; an earlier one of that name is an error."""
        self._file = path.open("xb", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX)  # who reads the folder sees that it is in progress
        self._lock = threading.Lock()
        self.path = path
        self.problem: OSError | None = None
        self.newest: dict[str, Record] = {}  # by kind, for a display

    def write(self, record: Record) -> None:
        """Append a record; after the end of the observation nothing is written."""
        left = memoryview(encode_record(record) + b"\n")
        with self._lock:
            if self._file.closed or self.problem is not None:
                return
            try:
                while left:  # unbuffered, so a nearly full disk may take a part
                    left = left[self._file.write(left) :]
            except OSError as error:
                self.problem = error
            else:
                self.newest[type(record).__name__] = record

    def close(self) -> None:
        """End the observation."""
        with self._lock:
            self._file.close()


class GroupObserver:
    """Records a group, and its workload if one is given, while the ``with`` block runs."""

    def __init__(
        self,
        path: Path,
        settings: Mapping[str, Any],
        *,
        group: str,
        topic: str,
        cluster: ObservedCluster | None,
    ) -> None:
        """Write to ``path``; ``settings`` are librdkafka's, with the servers."""
        self.records = RecordsFile(path)
        self._clock_watch = ClockWatch(SOURCE, self.records.write)
        self._threads = sources_of(
            settings,
            self.records.write,
            group=group,
            topic=topic,
            source=SOURCE,
            pids={},
            interval_ns=_INTERVAL_NS,
            cluster=cluster,
        )

    def __enter__(self) -> Self:
        """Start to read."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop; readings under way are not awaited, and no longer written."""
        for thread in self._threads:
            thread.stop()
        self._clock_watch.look()
        self.records.write(
            Phase(at=time.time_ns(), source=SOURCE, name=STOPPING_PHASE, state="started")
        )
        self.records.close()

    def wait(self, seconds: float, each_second: Callable[[], None] = lambda: None) -> None:
        """Observe for ``seconds``; an interrupt of the process ends it early."""
        ends_at, pause = time.monotonic() + seconds, threading.Event()
        while (left := ends_at - time.monotonic()) > 0:
            pause.wait(min(_LOOK_SECONDS, left))
            self._clock_watch.look()
            if (problem := self.records.problem) is not None:
                raise NotReady(
                    f"could not write {self.records.path}: {problem.strerror}. The readings until "
                    "then are there: lagbench report judges them"
                ) from problem
            each_second()
