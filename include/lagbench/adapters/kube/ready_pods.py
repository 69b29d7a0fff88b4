"""Wait until a workload's pods are Ready, and report what keeps them from it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.pod_logs import logs_of_pod
from lagbench.core.cluster.refused_pods import refused_pods
from lagbench.core.kubernetes.readiness import is_ready, repeated_ends
from lagbench.errors import PodsEnded, PodsRefused

READY_TIMEOUT_SECONDS = 60.0
CLUSTER_START_SECONDS = 300.0
"""For pods of a cluster: a node may have to be added, and a new node pulls the image."""
REFUSED_SECONDS = 5.0
"""Kubernetes tries ten times in that time, so what it is still counting does not end the wait."""
LOG_LINES = 5


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
    :raises PodsEnded: a pod ends again and again.
    """
    seen = _Seen()

    def is_ready(kube: Kube) -> bool:
        found = kube.get(kind, name) or {}
        status = found.get("status") or {}
        generation = (found.get("metadata") or {}).get("generation", 0)
        is_current = status.get("observedGeneration", 0) >= generation
        require_lasting(kube, kube.list("Pod"), name)
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


def require_lasting(kube: Kube, pods: Iterable[Mapping[str, Any]], workload: str) -> None:
    """Reject a workload with a pod whose container ends again and again: no wait can help.

    :raises PodsEnded: the message has the exit code and the last lines of the pod's log.
    """
    for pod in pods:
        name, ended = str(pod["metadata"]["name"]), repeated_ends(pod)
        if ended is not None and name.startswith(f"{workload}-"):
            raise PodsEnded(f"Pod/{name}: {ended}{_last_words(kube, pod)}")


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
