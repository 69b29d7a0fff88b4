"""``python -m tests.cluster.rig --with-broker python -m tests.cluster.sync_on_step PAIRS FILE``.

Measures on the real KEDA and HPA how long after a step of lag the HPA decides, with the lag
scaler's ``syncOnStep`` and without, in pairs of drawn order. The pods are pending, so that nothing
but the chain from the offsets to the Deployment's replicas is measured. FILE gets a JSON line a
step: seconds since the last message of the step was acknowledged.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from kubernetes import client, config, watch

from lagbench.adapters.kube.kube import Kube
from lagbench.core.scenario.run_names import NAMESPACE, RunNames
from tests.cluster.lagging_group import commit, idle_consumers, let_lag, scaled_object
from tests.eventually import eventually
from tests.integration.lag_scaler.scaler_process import running_scaler

THRESHOLD, PARTITIONS, MOST = 100, 12, 12
MODES = {"clock": "false", "step": "true"}
CALM_SECONDS = (16.0, 31.0)
"""Drawn between two steps: at least one sync of the HPA, so that its phase is drawn as well."""


@dataclass(slots=True)
class Followed:
    """What the API server said of one workload, by wall clock."""

    replicas: list[tuple[float, int]] = field(default_factory=list)
    hpas: list[tuple[float, int, str]] = field(default_factory=list)
    """Instant, generation, target."""
    targets: list[tuple[float, str]] = field(default_factory=list)
    """Each change."""

    def at(self, count: int, since: float) -> float | None:
        """Return when the Deployment got ``count`` replicas after ``since``."""
        found = [when for when, number in list(self.replicas) if when >= since and number == count]
        return found[0] if found else None


def follow(api: client.ApiClient) -> Mapping[str, Followed]:
    """Follow each Deployment and its HPA, by name, from now on."""
    seen: defaultdict[str, Followed] = defaultdict(Followed)
    apps, scaling = client.AppsV1Api(api), client.AutoscalingV2Api(api)

    def take_deployment(found: Any) -> None:
        replicas = seen[found.metadata.name].replicas
        if not replicas or replicas[-1][1] != found.spec.replicas:
            replicas.append((time.time(), found.spec.replicas))

    def take_hpa(found: Any) -> None:
        target = found.spec.metrics[0].external.target.average_value
        of = seen[found.metadata.name.removeprefix("keda-hpa-")]
        of.hpas.append((time.time(), found.metadata.generation or 0, target))
        if not of.targets or of.targets[-1][1] != target:
            of.targets.append((time.time(), target))

    def run(listed: Callable[..., Any], take: Callable[[Any], None]) -> None:
        while True:
            for event in watch.Watch().stream(listed, NAMESPACE, timeout_seconds=300):
                take(event["object"])

    for listed, take in (
        (apps.list_namespaced_deployment, take_deployment),
        (scaling.list_namespaced_horizontal_pod_autoscaler, take_hpa),
    ):
        threading.Thread(target=run, args=(listed, take), daemon=True).start()
    return seen


@contextmanager
def workload(
    kube: Kube, name: str, names: RunNames, metadata: dict[str, str], **spec: Any
) -> Iterator[str]:
    """Provide a Deployment and its ScaledObject for the lag of ``names``; yield its name."""
    kube.apply(idle_consumers(NAMESPACE, 1, name=name, has_node=False))
    metadata = {
        "topic": names.events_topic,
        "consumerGroup": names.group,
        "lagThreshold": str(THRESHOLD),
        "lagScope": "total",
        "sustainSeconds": "0",
        "samplingInterval": "0.25",
        **metadata,
    }
    trigger = {"type": "external-push", "metadata": metadata}
    kube.apply(scaled_object(NAMESPACE, name, trigger, at_once=15, maxReplicaCount=MOST, **spec))
    try:
        yield name
    finally:
        kube.delete("ScaledObject", name)
        eventually(lambda: kube.get("ScaledObject", name) is None, "its deletion")
        kube.delete("Deployment", name)


def steps(pairs: int, kube: Kube, scaler: str, servers: str) -> Iterator[dict[str, Any]]:
    """Yield what was measured of each step."""
    api = config.new_client_from_config(os.environ["KUBECONFIG"])
    version = client.VersionApi(api).get_code().git_version
    drawn = random.Random(36)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    with ExitStack() as running:
        placed = {}
        seen = follow(api)
        for mode, sync_on_step in MODES.items():
            names = RunNames(f"step-{mode}")
            let_lag(servers, names, 0, partitions=PARTITIONS)
            metadata = {
                "scalerAddress": scaler,
                "bootstrapServers": servers,
                "syncOnStep": sync_on_step,
            }
            name = running.enter_context(workload(kube, f"step-{mode}", names, metadata))
            placed[mode] = Stepped(names, seen[name])
        for pair in range(pairs):
            wanted = drawn.randint(3, MOST - 2)
            for mode in drawn.sample(list(MODES), 2):
                time.sleep(drawn.uniform(*CALM_SECONDS))
                measured = placed[mode].step(producer, wanted)
                yield {"kubernetes": version, "pair": pair, "mode": mode, **measured}
                placed[mode].catch_up(servers)


@dataclass(slots=True)
class Stepped:
    """One group whose lag is raised and taken away."""

    names: RunNames
    seen: Followed
    offset: int = 0

    def step(self, producer: Producer, wanted: int) -> dict[str, Any]:
        """Let the lag ask for ``wanted`` pods; return when the HPA's spec and decision came."""
        seen = self.seen
        eventually(lambda: seen.hpas, "the HPA")
        before = len(seen.hpas)
        each = (wanted * THRESHOLD - THRESHOLD // 2) // PARTITIONS + 1
        for number in range(each * PARTITIONS):
            producer.produce(self.names.events_topic, b"x", partition=number % PARTITIONS)
        assert producer.flush(60) == 0
        self.offset += each
        began_at = time.time()
        decided_at = eventually(lambda: seen.at(wanted, began_at), f"{wanted} replicas")
        written = seen.hpas[before:]
        changed = [when for when, _, target in written if target != seen.hpas[before - 1][2]]
        return {
            "replicas": wanted,
            "decided_seconds": round(decided_at - began_at, 3),
            "spec_seconds": round(changed[0] - began_at, 3) if changed else None,
            "hpa_writes": len(written),
        }

    def catch_up(self, servers: str) -> None:
        """Commit everything, and wait for the floor."""
        back_at = time.time()
        commit(servers, self.names, self.offset, partitions=PARTITIONS)
        eventually(lambda: self.seen.at(1, back_at), "one replica again")


def keep(rows: Iterable[Mapping[str, Any]], file: Path) -> None:
    """Append each row to the file and print it, as soon as it is measured."""
    with file.open("a", encoding="utf-8") as written:
        for row in rows:
            for stream in (written, sys.stdout):
                stream.write(json.dumps(row) + "\n")
                stream.flush()


def main(arguments: list[str]) -> None:
    """Write a line a step, as soon as it is measured."""
    pairs, file = int(arguments[0]), Path(arguments[1])
    kube = Kube.from_kubeconfig(os.environ["KUBECONFIG"])
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    servers = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
    with tempfile.TemporaryDirectory() as folder, running_scaler(Path(folder)) as scaler:
        keep(steps(pairs, kube, scaler.address, servers), file)
    kube.close()


if __name__ == "__main__":
    main(sys.argv[1:])
