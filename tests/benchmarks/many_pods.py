"""Measure the cost of many pods that start at once in mid-load, for the generator and the pods."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import yaml

from lagbench.adapters.kafka.telemetry_topic import first_record, read_records
from lagbench.adapters.kube.kube import Kube
from lagbench.core.cluster.manifests import RunTarget, consumer_for_run
from lagbench.core.cluster.run_jobs import producer_job_for_run
from lagbench.core.scenario.profiles import SteadyProfile
from lagbench.core.scenario.run_names import NAMESPACE, RunNames
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario
from lagbench.core.scenario.stream_start import start_delay
from lagbench.core.telemetry.records_of_programs import (
    PodStarted,
    ProducerProgress,
    StreamFinished,
    StreamStarted,
)
from lagbench.embedded.bench_state import BenchFiles, LocalkubeProcess
from lagbench.embedded.broker import Broker
from lagbench.project import PROJECT_ROOT
from localkube.kube_objects import CREATED_AT_NS, READY_AT_NS
from tests.benchmarks.cpu_log import CpuLog
from tests.benchmarks.figures import Figure, at_most
from tests.benchmarks.stage import Stage, create_topics, open_stage

NAME = "many-pods"
PARTITIONS = 24
FLOOR, ADDED = 2, 22
RATE_PER_SECOND = 60_000
BEFORE_SECONDS = 8.0
AFTER_SECONDS = 12.0
AIM_READY_SECONDS = 0.8
AIM_LATENESS_MS = 20.0
_WITHIN_SECONDS = 60.0
_END_WITHIN_SECONDS = 150.0  # a machine that is busy with other work delivers late
_BASE = PROJECT_ROOT / "k8s" / "base"
Manifest = dict[str, Any]


def measure(scale: float) -> Iterator[Figure]:
    """Yield how long 22 pods take beyond their delay, and how late the generator is meanwhile."""
    names = RunNames("many-pods")
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
            yield from _started(stage, broker, names, kube, scale)
            kube.close()
        finally:
            localkube.stop()


def _started(
    stage: Stage, broker: Broker, names: RunNames, kube: Kube, scale: float
) -> Iterator[Figure]:
    target = RunTarget(names, broker.bootstrap_servers)
    settings = ConsumerSettings(process_ms=2, concurrency=8)
    start = start_delay(settings, 1, is_embedded=True)
    deployment = _committed("consumer/deployment.yaml")
    kube.apply(consumer_for_run(deployment, target, settings, replicas=FLOOR, start=start))
    _until_ready(kube, FLOOR)
    seconds = BEFORE_SECONDS + AFTER_SECONDS
    profile = SteadyProfile(
        kind="steady",
        rate_per_second=RATE_PER_SECOND * min(1.0, scale * 4),
        duration_seconds=seconds,
    )
    scenario = Scenario(
        name="many_pods",
        description="paced",
        partitions=PARTITIONS,
        profile=profile,
        policy="lag-standard",
    )
    kube.apply(producer_job_for_run(_committed("producer/job.yaml"), target, scenario))
    servers, topic = broker.bootstrap_servers, names.telemetry_topic
    begun = stage.await_true(
        lambda: first_record(servers, topic, StreamStarted),
        "the stream's start",
        within_seconds=_WITHIN_SECONDS,
    )
    time.sleep(max(0.0, begun.stream_started_at / 1e9 + BEFORE_SECONDS - time.time()))
    asked_at = time.time_ns()
    kube.scale("consumer", FLOOR + ADDED)
    pods = _until_ready(kube, FLOOR + ADDED)
    stamps = {pod["metadata"]["name"]: _stamps(pod) for pod in pods}
    until = time.time_ns()
    cpu_log = CpuLog(
        {
            "consumers": [_pid(pod) for pod in pods],
            "producer": [_pid(pod) for pod in kube.list("Pod") if "producer" in _name(pod)],
            "broker": [broker.pid or 0],
        }
    )
    cpu_log.sample()
    ended_at = begun.stream_started_at / 1e9 + seconds - 0.5
    time.sleep(max(0.0, ended_at - time.time()))
    cpu_log.sample()
    carried_until = time.time_ns()
    stage.await_true(
        lambda: first_record(servers, topic, StreamFinished),
        "the stream's end",
        within_seconds=_END_WITHIN_SECONDS,
    )
    records = list(read_records(servers, topic))
    delays = {r.source: r for r in records if isinstance(r, PodStarted)}
    new = {pod: stamp for pod, stamp in stamps.items() if stamp[0] >= asked_at}
    beyond = [
        (ready - created) / 1e9 - (delays[pod].start_delay_seconds or 0.0)
        for pod, (created, ready) in new.items()
    ]
    cpu = [delays[pod].start_cpu_seconds or 0.0 for pod in new]
    lateness = [r for r in records if isinstance(r, ProducerProgress) and r.lateness_p99_ms]
    # A second's figures come at its end: those of the seconds that overlap with the start.
    through = [r.lateness_p99_ms for r in lateness if asked_at <= r.at <= until + 1e9]
    before = [r.lateness_p99_ms for r in lateness if asked_at - 4e9 <= r.at < asked_at]
    note = f"of {len(new)} pods at once at {profile.rate_per_second:,.0f}/s"
    yield Figure("ready beyond the delay p50", median(beyond), "s", None, note)
    yield Figure("ready beyond the delay max", max(beyond), "s", at_most(AIM_READY_SECONDS))
    yield Figure("processor time of a pod's start p50", median(cpu), "s")
    for part in ("consumers", "producer", "broker"):
        yield Figure(f"{part}: processor", cpu_log.cores(part, until, carried_until), "cores")
    yield Figure("lateness p99, worst second before", max(before), "ms")
    yield Figure(
        "lateness p99, worst second meanwhile", max(through), "ms", at_most(AIM_LATENESS_MS)
    )


def _until_ready(kube: Kube, replicas: int) -> list[Manifest]:
    def all_ready(kube: Kube) -> list[Manifest] | None:
        pods = kube.list("Pod", label_selector="app=consumer")
        ready = [pod for pod in pods if READY_AT_NS in pod["metadata"].get("annotations", {})]
        return ready if len(ready) == replicas else None

    return kube.wait_until(
        all_ready, timeout_seconds=_WITHIN_SECONDS, what=f"{replicas} ready consumers"
    )


def _name(pod: Manifest) -> str:
    """Return the name of a pod."""
    return str(pod["metadata"]["name"])


def _pid(pod: Manifest) -> int:
    """Return the number of a pod's process: localkube's containers are processes."""
    return int(pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2])


def _stamps(pod: Manifest) -> tuple[int, int]:
    notes = pod["metadata"]["annotations"]
    return int(notes[CREATED_AT_NS]), int(notes[READY_AT_NS])


def _committed(path: str) -> Manifest:
    found: Manifest = yaml.safe_load((_BASE / path).read_text(encoding="utf-8"))
    return found
