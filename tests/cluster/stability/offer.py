"""Offer one lag history to every column at once and record spec.replicas of each object."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from kubernetes import client, config

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.process.processes import end_process, start_tied
from lagbench.embedded.broker import Broker
from tests.cluster.stability.columns import (
    BARE_FLAGS,
    BARE_NAMESPACE,
    COLUMNS,
    NAMESPACE,
    PHASES,
    deployment,
    scaled_object,
)
from tests.cluster.stability.histories import CEILING
from tests.eventually import eventually
from tests.integration.autoscaler_setting import LagControl

_STAGGER_SECONDS = 5.0
_SETTLE_SECONDS = 16.0  # every HPA's first sync is behind it
_SAMPLE_SECONDS = 0.25
_RECORDS_PER_PARTITION = 100


def offer(lags: Sequence[int], folder: Path, kubeconfig: Path) -> dict[str, Any]:
    """Return lags, tracks by object, and the lateness of the commits."""
    broker = Broker(folder / "broker")
    broker.start()
    with ExitStack() as stack:
        stack.callback(broker.stop)
        control = LagControl(
            broker.bootstrap_servers, "offered", "offered", CEILING, _RECORDS_PER_PARTITION
        )
        control.prepare()
        control.set_lag(lags[0])
        kubes = {}
        for namespace, flags in ((NAMESPACE, ()), (BARE_NAMESPACE, BARE_FLAGS)):
            kube = kubes[namespace] = Kube.from_kubeconfig(str(kubeconfig), namespace=namespace)
            stack.callback(kube.close)
            kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            stack.enter_context(_controller(kubeconfig, namespace, flags, folder))
        _take_up(kubes, control)
        tracks = stack.enter_context(_recorded(kubeconfig))
        began = time.monotonic()
        late = _commit(lags, control, began)
        found = {name: tracks[name] for c in COLUMNS for name in c.objects}
    zeroed = {
        name: _from_start([(round(at - began, 2), replicas) for at, replicas in track])
        for name, track in found.items()
    }
    return {"lags": list(lags), "latest_commit_seconds": round(late, 2), "tracks": zeroed}


def _take_up(kubes: dict[str, Kube], control: LagControl) -> None:
    """Create all objects, one of each column per phase, and wait until each HPA has synced."""
    trigger = {
        "bootstrapServers": control.bootstrap_servers,
        "topic": control.topic,
        "consumerGroup": control.group,
    }
    rounds = [{c: c.first for c in COLUMNS}]
    rounds += [{c: c.objects[phase] for c in COLUMNS} for phase in range(PHASES)]
    for names in rounds:
        since = time.monotonic()
        for column, name in names.items():
            kube = kubes[column.namespace]
            kube.apply(deployment(column, name))
            kube.apply(scaled_object(column, name, trigger))
        _sleep_until(since + _STAGGER_SECONDS)
    for column in COLUMNS:
        for name in column.objects:
            eventually(_is_ready(kubes[column.namespace], name), f"{name} Ready")
    _sleep_until(time.monotonic() + _SETTLE_SECONDS)


def _is_ready(kube: Kube, name: str) -> Callable[[], bool]:
    def look() -> bool:
        status = (kube.get("ScaledObject", name) or {}).get("status") or {}
        found = {c["type"]: c for c in status.get("conditions") or ()}
        return bool(
            found.get("Ready", {}).get("status") == "True"
            and found.get("Active", {}).get("status") == "True"
        )

    return look


def _commit(lags: Sequence[int], control: LagControl, began: float) -> float:
    """Commit each second's lag when it is due; returns by how much the latest one was late."""
    consumer = Consumer({"bootstrap.servers": control.bootstrap_servers, "group.id": control.group})
    late = 0.0
    for second, lag in enumerate(lags):
        _sleep_until(began + second)
        share, rest = divmod(lag, control.partitions)
        places = [
            TopicPartition(
                control.topic, number, control.records_per_partition - share - (number < rest)
            )
            for number in range(control.partitions)
        ]
        consumer.commit(offsets=places, asynchronous=False)
        late = max(late, time.monotonic() - began - second)
    _sleep_until(began + len(lags))
    consumer.close()
    return late


@contextmanager
def _recorded(kubeconfig: Path) -> Iterator[dict[str, list[tuple[float, int]]]]:
    """Note each change of spec.replicas for the time of the block."""
    apps = client.AppsV1Api(config.new_client_from_config(str(kubeconfig)))
    tracks: dict[str, list[tuple[float, int]]] = {}
    is_over = threading.Event()

    def sample() -> None:
        while not is_over.is_set():
            for namespace in (NAMESPACE, BARE_NAMESPACE):
                now = time.monotonic()
                for item in apps.list_namespaced_deployment(namespace).items:
                    track = tracks.setdefault(item.metadata.name, [])
                    if not track or track[-1][1] != item.spec.replicas:
                        track.append((now, item.spec.replicas))
            is_over.wait(_SAMPLE_SECONDS)

    thread = threading.Thread(target=sample, name="samples", daemon=True)
    thread.start()
    eventually(lambda: len(tracks) == len(COLUMNS) * (PHASES + 1), "a first sample of each")
    try:
        yield tracks
    finally:
        is_over.set()
        thread.join(timeout=10)


@contextmanager
def _controller(
    kubeconfig: Path, namespace: str, flags: Sequence[str], folder: Path
) -> Iterator[None]:
    command = [sys.executable, "-m", "lagbench.programs.autoscaler", "--instead-of-keda"]
    command += ["--kubeconfig", str(kubeconfig), "--namespace", namespace, *flags]
    with (folder / f"{namespace}.log").open("ab") as log:
        process: subprocess.Popen[bytes] = start_tied(command, log=log)
    try:
        yield
    finally:
        has_ended = process.poll() is not None
        end_process(process.pid, grace_seconds=5)
        process.wait(timeout=10)
        if has_ended:
            sys.stderr.write((folder / f"{namespace}.log").read_text(encoding="utf-8")[-3000:])


def _from_start(track: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Keep one entry at or before 0."""
    before = [replicas for at, replicas in track if at <= 0][-1:]
    return [(0.0, replicas) for replicas in before] + [step for step in track if step[0] > 0]


def _sleep_until(instant: float) -> None:
    time.sleep(max(0.0, instant - time.monotonic()))
