"""A prometheus trigger on localkube: a real Prometheus as a pod, asked by the live scaler."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge, start_http_server
from tests.eventually import eventually
from tests.integration.localkube_process import LocalkubeProcess, running_localkube
from tests.integration.prometheus_process import debian_program

from lagbench.adapters.kube.cluster_check import base_manifest, base_objects
from lagbench.adapters.kube.followed_cluster import Cluster
from lagbench.adapters.kube.kube import Kube
from lagbench.catalog.catalog import load_policy
from lagbench.core.cluster.manifests import RunTarget, companion_for_run, prometheus_for_run
from lagbench.core.cluster.policy_manifest import policy_for_run
from lagbench.core.keda.loop.scalers import Scaler, ScalerFailed
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.scenario.run_names import NAMESPACE, PROMETHEUS, RunNames
from lagbench.embedded.child_server import free_port
from lagbench.programs.autoscaler.trigger_sources import LiveSources
from localkube.processes import is_alive

pytestmark = pytest.mark.slow

TARGET = RunTarget(RunNames("prometheus-1"), "127.0.0.1:1")


@dataclass(frozen=True)
class Recorder:
    """Stands for the recorder: the lag of the run's group, by partition."""

    port: int
    lag: Gauge

    def expose(self, *lags: int) -> None:
        """Show these lags, one for each partition."""
        of_group = (TARGET.names.group, TARGET.names.events_topic)
        for partition, value in enumerate(lags):
            self.lag.labels(*of_group, str(partition)).set(value)


@contextmanager
def running_recorder() -> Iterator[Recorder]:
    """Serve metrics for the time of the block."""
    registry = CollectorRegistry()
    labels = ("consumergroup", "topic", "partition")
    lag = Gauge("kafka_consumergroup_lag", "Lag by partition", labels, registry=registry)
    port = free_port()
    server, thread = start_http_server(port, "127.0.0.1", registry)
    try:
        yield Recorder(port, lag)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def prometheus_on(localkube: LocalkubeProcess, recorder: Recorder) -> Iterator[Kube]:
    """Apply what a run applies, and wait until Prometheus is Ready."""
    kube = Kube.from_kubeconfig(localkube.kubeconfig)
    try:
        kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for companion in base_objects("prometheus"):
            kube.apply(companion_for_run(companion, TARGET))
        address = f"127.0.0.1:{recorder.port}"
        committed = base_manifest("prometheus", "Deployment")
        kube.apply(prometheus_for_run(committed, TARGET, scraped_address=address))
        eventually(
            lambda: (
                (kube.get("Deployment", PROMETHEUS) or {}).get("status", {}).get("readyReplicas")
            ),
            "Prometheus is Ready",
        )
        yield kube
    finally:
        kube.close()


def is_ready(kube: Kube) -> bool:
    """Return whether the Deployment has a Ready pod."""
    found = kube.get("Deployment", PROMETHEUS) or {}
    return bool((found.get("status") or {}).get("readyReplicas"))


def scaler_of(localkube: LocalkubeProcess) -> Scaler:
    """Return the live scaler of the policy prometheus-lag, as a run applies it."""
    policy = policy_for_run(load_policy("prometheus-lag").manifest, TARGET, is_embedded=True)
    (trigger,) = parse_scaled_object(policy, where="policy").triggers
    cluster = Cluster.connect(str(localkube.kubeconfig), NAMESPACE)
    return LiveSources(cluster, lambda: 0).scaler((NAMESPACE, "consumer"), trigger)


def value_of(scaler: Scaler) -> float | str:
    """Return the value of one poll, or why it failed."""
    (spec,) = scaler.metric_specs()
    try:
        (value,) = scaler.read(spec.name).values
    except ScalerFailed as error:
        return str(error)
    return value


def test_the_scaler_follows_what_prometheus_scrapes(tmp_path: Path) -> None:
    """It reads the sum over the partitions; a recorder that is unreachable is an empty answer."""
    debian_program("prometheus")
    with running_localkube(tmp_path / "localkube") as localkube:
        with running_recorder() as recorder:
            recorder.expose(100, 20, 3)
            with prometheus_on(localkube, recorder):
                scaler = scaler_of(localkube)
                eventually(lambda: value_of(scaler) == 123, "the first lag")
                recorder.expose(1000, 20, 3)
                eventually(lambda: value_of(scaler) == 1023, "the second lag")
        lost = "prometheus metrics 'prometheus' target may be lost, the result is empty"
        eventually(lambda: value_of(scaler) == lost, "an empty answer")
        scaler.close()


def test_prometheus_ends_with_localkube_however_that_ends(tmp_path: Path) -> None:
    """Killed, localkube leaves no Prometheus behind."""
    debian_program("prometheus")
    with running_localkube(tmp_path / "localkube") as localkube, running_recorder() as recorder:
        with prometheus_on(localkube, recorder) as kube:
            (pod,) = kube.list("Pod", label_selector=f"app.kubernetes.io/name={PROMETHEUS}")
            (status,) = pod["status"]["containerStatuses"]
            pid = int(status["containerID"].removeprefix("process://"))
            assert is_alive(pid)
            assert Path(f"/proc/{pid}/comm").read_text().strip() == "prometheus"

        os.kill(localkube.process.pid, signal.SIGKILL)

        eventually(lambda: not is_alive(pid), "the end of Prometheus")
