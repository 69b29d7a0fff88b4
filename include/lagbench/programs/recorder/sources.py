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
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, PositiveInt

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.kube_client import Event, WatchTimes, list_and_watch, log_in
from lagbench.core.measures.evidence.group_events import STOPPING_PHASE
from lagbench.core.scenario.run_names import CONSUMER_DEPLOYMENT, NAMESPACE, RUN_ID_LABEL
from lagbench.core.scenario.scenario import Workload
from lagbench.core.telemetry.records import encode_record
from lagbench.core.telemetry.records_of_programs import Phase, Record
from lagbench.core.telemetry.records_of_recorder import What
from lagbench.errors import NotReady
from lagbench.programs.clock_watch import ClockWatch
from lagbench.programs.recorder.cluster_clocks import ClockProbe, ClockSources
from lagbench.programs.recorder.grid_sampler import GridSampler, Read, SourceThread
from lagbench.programs.recorder.kafka_readings import GroupReading, LagReading
from lagbench.programs.recorder.pod_watch import PodWatch
from lagbench.programs.recorder.scaling_watch import (
    EventWatch,
    ReplicaWatch,
    Scaled,
    ScalerKind,
    ScalerWatch,
    UsageReading,
    replica_reading,
    scaler_reading,
)
from lagbench.programs.run_flags import RunFlags
from pod_program.flags import CommandLine, Flag, PodName, Settings
from pod_program.kafka_settings import own_settings

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_KUBE_TIMEOUT_SECONDS = 2.0
_INTERVAL_NS = 1_000_000_000
_WATCH_TIMES = WatchTimes(list_seconds=5.0, watch_seconds=30, overdue_seconds=5.0)
Send = Callable[[Record], None]
Sources = list[SourceThread]


class RecorderOptions(RunFlags, Settings):
    """lagbench's observer of a run."""

    group: str = Field(description="consumer group; default: the run's, by --run-id")
    telemetry_topic: str = Field(
        description="topic of the telemetry; default: the run's, by --run-id"
    )
    namespace: str = Field(NAMESPACE, description="namespace of the consumers")
    deployment: str = Field(CONSUMER_DEPLOYMENT, description="workload of the consumers")
    workload: Workload = Field("Deployment", description="kind of that workload")
    interval_seconds: float = Field(1.0, ge=0.1, le=3600, description="time between two samples")
    has_metric_aliases: Annotated[bool, Flag("metric-aliases")] = Field(
        False, description="metrics also have the names of kafka_exporter and kube-state-metrics"
    )
    source: PodName = "recorder"
    observed_pids: dict[str, PositiveInt] = Field(
        {}, description='a JSON object of process ids by name, such as {"broker": 4711}'
    )

    @property
    def pod_selector(self) -> str:
        """The label selector of the run's consumers: others may have pods of the same ``app``."""
        of_deployment = f"app={self.deployment}"
        if self.run_id is None:  # the topics were named one by one
            return of_deployment
        return f"{of_deployment},{RUN_ID_LABEL}={self.run_id}"


parse_options = CommandLine(RecorderOptions, module="lagbench.programs.recorder").read


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """Where the group's workload runs, and how to log in there; each thread has its own client."""

    open_client: Callable[[], ApiClient]
    namespace: str
    deployment: str
    workload: Workload
    pod_selector: str
    has_scaled_object: bool
    has_own_policy: bool = False
    """True: ScaledObjects are watched, too, which takes a right that an observer may not have."""

    def open_kube(self) -> Kube:
        """Log in to the workload's namespace."""
        seconds = _KUBE_TIMEOUT_SECONDS
        client = self.open_client()
        return Kube(client, namespace=self.namespace, request_timeout_seconds=seconds)

    def events(self, path: str, **selection: str) -> Callable[[], Iterator[Event]]:
        """Return what lists and watches the objects below a path, with a client of its own."""
        client = cache(self.open_client)
        return lambda: list_and_watch(client(), path, _WATCH_TIMES, selection=selection)


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

    cluster = ObservedCluster(
        open_client,
        options.namespace,
        options.deployment,
        options.workload,
        options.pod_selector,
        has_scaled_object=True,
        has_own_policy=True,
    )
    return sources_of(
        own_settings(options.bootstrap_servers, environment),
        send,
        group=options.group,
        topic=options.topic,
        source=options.source,
        cluster=cluster,
        pids=options.observed_pids,
        interval_ns=round(options.interval_seconds * 1e9),
    )


def sources_of(
    settings: Mapping[str, Any],
    send: Send,
    *,
    group: str,
    topic: str,
    source: str,
    cluster: ObservedCluster | None,
    pids: Mapping[str, int] = MappingProxyType({}),
    interval_ns: int = _INTERVAL_NS,
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
        of_workload, threads = _workload_sources(cluster, send, source, since_at=origin_at)
        reads |= of_workload
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


def _workload_sources(
    cluster: ObservedCluster, send: Send, source: str, *, since_at: int
) -> tuple[dict[What, Read], Sources]:
    """Return the readings of the workload and its scalers, and the watches of what changes them."""
    scaled = Scaled(cluster.deployment, send, source, cluster.open_kube, cluster.workload)
    in_namespace = f"namespaces/{cluster.namespace}"
    core, workloads = f"/api/v1/{in_namespace}", f"{cluster.workload.lower()}s"
    watched: dict[ScalerKind, str] = {"HorizontalPodAutoscaler": "autoscaling/v2"}
    if cluster.has_own_policy:
        watched["ScaledObject"] = "keda.sh/v1alpha1"
    pods = cluster.events(f"{core}/pods", labelSelector=cluster.pod_selector)
    itself = cluster.events(
        f"/apis/apps/v1/{in_namespace}/{workloads}", fieldSelector=f"metadata.name={scaled.name}"
    )
    threads: Sources = [
        PodWatch(pods, send, source),
        ReplicaWatch(itself, scaled),
        EventWatch(cluster.events(f"{core}/events"), scaled, since_at=since_at),
    ]
    for kind, group in watched.items():
        objects = cluster.events(f"/apis/{group}/{in_namespace}/{kind.lower()}s")
        threads.append(ScalerWatch(kind, objects, scaled))
    clocks = ClockSources(cluster.open_client, cluster.open_kube)
    if not clocks.is_on_this_machine():  # else there is one clock
        probe = ClockProbe(clocks.ask_api_server, clocks.find_nodes, send=send, source=source)
        threads.append(probe)
    reads: dict[What, Read] = {
        "replicas": replica_reading(scaled),
        "hpa": scaler_reading("HorizontalPodAutoscaler", scaled),
    }
    if cluster.has_scaled_object:
        reads["scaled_object"] = scaler_reading("ScaledObject", scaled)
    return reads, threads


SOURCE = "observer"
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
            settings, self.records.write, group=group, topic=topic, source=SOURCE, cluster=cluster
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
