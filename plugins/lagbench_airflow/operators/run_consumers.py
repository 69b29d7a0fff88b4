"""Start the consumers under test."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.manifest_files import base_manifest, base_objects
from lagbench.adapters.kube.pod_logs import logs_of_pod
from lagbench.core.cluster import (
    ConsumersWay,
    broker_proxy_for_run,
    companion_for_run,
    consumer_for_run,
    refused_pods,
)
from lagbench.core.kubernetes import is_ready
from lagbench.core.scenario import (
    BROKER_PROXY,
    BrokerUnreachable,
    Scenario,
    downstream_pace,
    start_delay,
)
from lagbench.core.scenario.stream import poisoned_key
from lagbench.embedded import bench
from lagbench.embedded.broker_settings import ProxiedListener
from lagbench.errors import NotReady, PodsRefused
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.cell_operator import CellOperator
from lagbench_airflow.operators.imposed_limits import require_unthrottled

if TYPE_CHECKING:
    from airflow.sdk import Context

READY_TIMEOUT_SECONDS = 60.0
CLUSTER_START_SECONDS = 300.0
"""For pods of a cluster: a node may have to be added, and a new node pulls the image."""
REFUSED_SECONDS = 5.0
"""Kubernetes tries ten times in that time, so what it is still counting does not end the wait."""
LOG_LINES = 5


class RunConsumersOperator(CellOperator):
    """Run the consumers' workload at the policy's floor.

    If an action disturbs their connections to the broker, the broker proxy comes first.

    After success: every pod is Ready. On failure the workload stays, so that its pods can be
    inspected; the run's teardown deletes it. A retry applies the same manifest again and is safe.
    """

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Apply the workload and wait for its pods."""
        from lagbench_airflow.hooks.kube import PATIENCE_SECONDS, embedded_access, open_kube

        target = self.target(cell)
        replicas = cell.policy.limits.floor_replicas
        is_embedded = embedded_access(self.kubernetes_conn_id) is not None
        if cell.scenario.consumer.kind == "spark":
            from lagbench_airflow.operators.spark_consumers import start_spark_consumers

            kube = open_kube(self.kubernetes_conn_id, patience_seconds=PATIENCE_SECONDS)
            with closing(kube):
                return start_spark_consumers(kube, cell, target, is_embedded=is_embedded)
        if cell.scenario.consumer.kind == "own":
            from lagbench_airflow.operators.own_consumers import start_own_consumers

            kube = open_kube(self.kubernetes_conn_id, patience_seconds=PATIENCE_SECONDS)
            with closing(kube):
                return start_own_consumers(kube, cell, target, is_embedded=is_embedded)
        settings = cell.scenario.consumer
        start = start_delay(settings, cell.scenario.seed, is_embedded=is_embedded)
        # Its action disturbs the first group's connections: the second group's scenario lacks it.
        listener = listener_behind_proxy(cell.scenario)
        way = None
        if listener is not None:
            way = ConsumersWay(listener.bootstrap_servers, target.bootstrap_servers)
        manifest = consumer_for_run(
            base_manifest("consumer", "Deployment"),
            target,
            settings,
            replicas=replicas,
            seed=cell.scenario.seed,
            poison=poisoned_key(cell.scenario),
            start=start,
            pace=downstream_pace(cell.scenario.actions),
            has_payload=cell.scenario.payload is not None,
            way=way,
        )
        kube = open_kube(self.kubernetes_conn_id, patience_seconds=PATIENCE_SECONDS)
        try:
            if listener is not None:
                proxy = broker_proxy_for_run(
                    base_manifest(BROKER_PROXY, "Deployment"),
                    target,
                    listen_port=listener.advertised_port,
                    upstream_port=listener.port,
                )
                kube.apply(proxy)
                wait_ready(kube, BROKER_PROXY, 1)
            if not is_embedded:  # localkube drains no nodes
                for companion in base_objects("consumer"):
                    kube.apply(companion_for_run(companion, target))
            kube.apply(manifest)
            within = start_limit_seconds(is_embedded=is_embedded)
            within += 0.0 if start is None else start.longest_seconds
            name, kind = manifest["metadata"]["name"], manifest["kind"]
            wait_ready(kube, name, replicas, kind=kind, timeout_seconds=within)
            if not is_embedded:  # localkube has no LimitRanges
                require_unthrottled(kube, manifest)
        finally:
            kube.close()
        return {
            "replicas": replicas,
            "args": manifest["spec"]["template"]["spec"]["containers"][0]["args"],
        }


def listener_behind_proxy(scenario: Scenario) -> ProxiedListener | None:
    """Return the embedded broker's listener behind the proxy, if an action disturbs it.

    :raises NotReady: the bench has none.
    """
    if not any(isinstance(action, BrokerUnreachable) for action in scenario.actions):
        return None
    state = bench.running(bench.state_dir())
    if state is None or state.proxied is None:
        raise NotReady(
            "the running bench has no listener behind the broker proxy: an earlier version started "
            "it. Stop it with `lagbench down` and start the run again"
        )
    return state.proxied


def start_limit_seconds(*, is_embedded: bool) -> float:
    """Return the longest wait for a pod of lagbench's own images to be Ready."""
    return READY_TIMEOUT_SECONDS if is_embedded else CLUSTER_START_SECONDS


def wait_ready(
    kube: Kube,
    name: str,
    replicas: int,
    *,
    kind: str = "Deployment",
    timeout_seconds: float = READY_TIMEOUT_SECONDS,
    written_in: str = "k8s/base",
) -> None:
    """Wait until the workload's controller has seen its newest spec and all pods are Ready.

    :param written_in: where the workload's pods are written, for the message.
    :raises PodsRefused: Kubernetes has rejected its pods for a while; it says why.
    """
    seen = _Seen()

    def is_ready(kube: Kube) -> bool:
        found = kube.get(kind, name) or {}
        status = found.get("status") or {}
        generation = (found.get("metadata") or {}).get("generation", 0)
        is_current = status.get("observedGeneration", 0) >= generation
        seen.note(status.get("readyReplicas") or 0, refused_pods(found) if is_current else None)
        if seen.refusal is not None and seen.refused_seconds >= REFUSED_SECONDS:
            raise PodsRefused(
                f"Kubernetes creates no pod of {kind}/{name} in namespace {kube.namespace}. "
                f"Change its pods in {written_in}, or what the namespace admits: {seen.refusal}"
            )
        return is_current and seen.ready >= replicas

    kube.wait_until(
        is_ready,
        timeout_seconds=timeout_seconds,
        what=f"{replicas} Ready pods of {kind}/{name}",
        last_seen=lambda: "; ".join([*seen.words, *_what_keeps(kube, name)]),
    )


@dataclass
class _Seen:
    """The workload at the last look, and since when Kubernetes has rejected its pods."""

    ready: int = 0
    refusal: str | None = None
    refused_seconds: float = 0.0
    _since: float | None = None

    @property
    def words(self) -> list[str]:
        return [f"{self.ready} Ready", *([] if self.refusal is None else [self.refusal])]

    def note(self, ready: int, refusal: str | None) -> None:
        now = time.monotonic()
        if refusal is None or self._since is None:
            self._since = now
        self.ready, self.refusal = ready, refusal
        self.refused_seconds = 0.0 if refusal is None else now - self._since


def _what_keeps(kube: Kube, workload: str) -> list[str]:
    """Return why each pod of the workload is not Ready, with the end of its log."""
    reported = []
    for pod in kube.list("Pod"):
        name, status = str(pod["metadata"]["name"]), pod.get("status") or {}
        if not name.startswith(f"{workload}-") or is_ready(pod):
            continue
        reasons = [str(status.get("phase"))]
        reasons += [c["message"] for c in status.get("conditions") or [] if c.get("message")]
        for container in status.get("containerStatuses") or []:
            waiting = (container.get("state") or {}).get("waiting") or {}
            reasons += [waiting[key] for key in ("reason", "message") if waiting.get(key)]
        reported.append(f"Pod/{name}: {', '.join(dict.fromkeys(reasons))}{_last_words(kube, pod)}")
    return reported


def _last_words(kube: Kube, pod: Mapping[str, Any]) -> str:
    ends = {
        name: " | ".join(text.strip().splitlines()[-LOG_LINES:])
        for name, text in logs_of_pod(kube, pod).items()
    }
    return "".join(
        f"; {'its log' if name == pod['metadata']['name'] else f'the log {name}'} ends: {end}"
        for name, end in ends.items()
        if end
    )
