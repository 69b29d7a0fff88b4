"""Measure the time of a pod on localkube from created to Ready."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import yaml

from lagbench.adapters.kube.kube import Kube
from lagbench.core.cluster.manifests import RunTarget, consumer_for_run
from lagbench.core.scenario.run_names import NAMESPACE, RunNames
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.embedded.bench_state import BenchFiles, LocalkubeProcess
from lagbench.project import PROJECT_ROOT
from localkube.kube_objects import CREATED_AT_NS, READY_AT_NS, STARTED_AT_NS
from tests.benchmarks.figures import Figure, at_most
from tests.benchmarks.stage import create_topics, open_stage

NAME = "pods"
STARTS = 7
FEWEST_STARTS = 2
MANY = 12
PARTITIONS = 12
AIM_SECONDS = 0.5
_LIMIT_SECONDS = 60.0
_CONSUMER = PROJECT_ROOT / "k8s" / "base" / "consumer" / "deployment.yaml"
# Answers any request; without http.server, whose import alone takes 60 ms.
_TRIVIAL = """
import os, socket
server = socket.create_server(("127.0.0.1", int(os.environ["PORT_HTTP"])))
while True:
    client, _ = server.accept()
    client.recv(4096)
    client.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
    client.close()
"""
Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodStart:
    """One pod's way, in seconds."""

    asked_to_created: float
    created_to_started: float
    created_to_ready: float


def measure(scale: float) -> Iterator[Figure]:
    """Yield start and readiness of one pod, and of eleven at once, for both workloads."""
    starts = max(round(STARTS * scale), FEWEST_STARTS)
    names = RunNames("pod-start")
    with open_stage() as stage:
        broker = stage.start_broker()
        create_topics(broker, names, PARTITIONS)
        files = BenchFiles(stage.folder / "bench")
        localkube = LocalkubeProcess(files)
        try:
            localkube.launch(os.environ)
            localkube.await_serving()
            kube = Kube.from_kubeconfig(files.kubeconfig)
            kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            yield from _workload(kube, "trivial", _trivial(), starts)
            target = RunTarget(names, broker.bootstrap_servers)
            base = yaml.safe_load(_CONSUMER.read_text(encoding="utf-8"))
            consumer = consumer_for_run(base, target, ConsumerSettings(), replicas=0)
            yield from _workload(kube, "consumer", consumer, starts)
            kube.close()
        finally:
            localkube.stop()


def _workload(kube: Kube, what: str, manifest: Manifest, starts: int) -> Iterator[Figure]:
    kube.apply(manifest)
    name = manifest["metadata"]["name"]
    alone = []
    for _ in range(starts):
        alone += _scaled(kube, name, manifest, 1)
        _scale_down(kube, name, manifest)
    _scaled(kube, name, manifest, 1)
    many = _scaled(kube, name, manifest, MANY)
    _scale_down(kube, name, manifest)
    kube.delete("Deployment", name)
    yield from _figures(f"{what}, 0 to 1", alone, f"of {starts} starts")
    yield from _figures(f"{what}, 1 to {MANY}", many, f"of {len(many)} pods at once")


def _figures(what: str, starts: list[PodStart], note: str) -> Iterator[Figure]:
    asked = median(start.asked_to_created for start in starts)
    begun = [start.created_to_started for start in starts]
    ready = [start.created_to_ready for start in starts]
    note = f"{note}; asked to created {asked * 1000:.0f} ms"
    yield Figure(f"{what}: created to started p50", median(begun), "s")
    yield Figure(f"{what}: created to started max", max(begun), "s")
    yield Figure(f"{what}: created to ready p50", median(ready), "s", at_most(AIM_SECONDS), note)
    yield Figure(f"{what}: created to ready max", max(ready), "s")


def _scaled(kube: Kube, name: str, manifest: Manifest, replicas: int) -> list[PodStart]:
    """Scale up and return the starts of the pods that this brought."""
    known = {pod["metadata"]["uid"] for pod in _pods(kube, manifest)}
    asked_at = time.time_ns()
    kube.scale(name, replicas)

    def all_ready(_: Kube) -> list[Manifest] | None:
        pods = _pods(kube, manifest)
        ready = [pod for pod in pods if READY_AT_NS in pod["metadata"].get("annotations", {})]
        return ready if len(ready) == replicas else None

    pods = kube.wait_until(
        all_ready, timeout_seconds=_LIMIT_SECONDS, what=f"{replicas} ready pods of {name}"
    )
    return [_start(pod, asked_at) for pod in pods if pod["metadata"]["uid"] not in known]


def _scale_down(kube: Kube, name: str, manifest: Manifest) -> None:
    kube.scale(name, 0)
    kube.wait_gone("Pod", label_selector=_selector(manifest), timeout_seconds=_LIMIT_SECONDS)


def _start(pod: Manifest, asked_at: int) -> PodStart:
    notes = pod["metadata"]["annotations"]
    created, started, ready = (
        int(notes[key]) for key in (CREATED_AT_NS, STARTED_AT_NS, READY_AT_NS)
    )
    return PodStart((created - asked_at) / 1e9, (started - created) / 1e9, (ready - created) / 1e9)


def _pods(kube: Kube, manifest: Manifest) -> list[Manifest]:
    return kube.list("Pod", label_selector=_selector(manifest))


def _selector(manifest: Manifest) -> str:
    labels = manifest["spec"]["selector"]["matchLabels"]
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _trivial() -> Manifest:
    labels = {"app": "trivial"}
    container = {
        "name": "main",
        "image": "lagbench",
        "command": ["python", "-c", _TRIVIAL],
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "trivial", "namespace": NAMESPACE},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
