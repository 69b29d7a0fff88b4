"""Put the recorder's sources together, each in a thread of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from lagbench.adapters.kube import Kube
from lagbench.core.telemetry import Record
from lagbench.programs.recorder.kafka_readings import GroupReading, LagReading
from lagbench.programs.recorder.kube_readings import HpaReading, ReplicaReading
from lagbench.programs.recorder.pod_watch import PodApi, PodWatch
from lagbench.programs.recorder.sampling_grid import GridSampler, Read, What
from lagbench.programs.recorder.settings import RecorderOptions
from lagbench.programs.recorder.usage_readings import UsageReading

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_KUBE_TIMEOUT_SECONDS = 2.0


def build_sources(
    options: RecorderOptions, environment: Mapping[str, str], send: Callable[[Record], None]
) -> Sequence[GridSampler | PodWatch]:
    """Return the threads, not started."""
    # Importing the Kubernetes client takes a second or two: before the grid starts, not on it.
    import_module("kubernetes.dynamic")
    source, servers = options.source, options.bootstrap_servers
    is_in_cluster = "KUBECONFIG" not in environment

    def open_kube() -> Kube:
        return Kube(
            _open_client(is_in_cluster=is_in_cluster),
            namespace=options.namespace,
            request_timeout_seconds=_KUBE_TIMEOUT_SECONDS,
        )

    pids = {"recorder": os.getpid(), **options.observed_pids}
    reads: dict[What, Read] = {
        "lag": LagReading(servers, group=options.group, topic=options.topic, source=source),
        "group": GroupReading(servers, group=options.group, source=source),
        "replicas": ReplicaReading(open_kube, deployment=options.deployment, source=source),
        "hpa": HpaReading(open_kube, deployment=options.deployment, source=source),
        "usage": UsageReading(pids, source=source),
    }
    interval_ns = round(options.interval_seconds * 1e9)
    origin_at = time.time_ns()
    samplers = [
        GridSampler(
            what, read, send=send, source=source, origin_at=origin_at, interval_ns=interval_ns
        )
        for what, read in reads.items()
    ]
    pods = PodApi(
        lambda: _open_client(is_in_cluster=is_in_cluster),
        options.namespace,
        f"app={options.deployment}",
    )
    return [*samplers, PodWatch(pods.events, send, source)]


def _open_client(*, is_in_cluster: bool) -> ApiClient:
    """Return a client of the API that KUBECONFIG names, else of the cluster around this pod."""
    from kubernetes import client, config

    configuration = client.Configuration()
    if is_in_cluster:
        config.load_incluster_config(client_configuration=configuration)
    else:
        config.load_kube_config(client_configuration=configuration, persist_config=False)
    configuration.retries = 0  # the next second reads again
    return client.ApiClient(configuration)
