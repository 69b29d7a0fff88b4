"""Wait until a workload's pods are Ready, and report what keeps them from it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lagbench.adapters.kube.kube import Kube, Manifest
from lagbench.core.workload_state import is_ready, refused_pods, repeated_ends, violated_level
from lagbench.errors import NotReady, PodsEnded, PodsRefused, WrongInput

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


_TRIAL = "trial"


def require_admitted(kube: Kube, workload: Manifest, *, where: str) -> None:
    """Reject a workload that the API server rejects, or whose pods its namespace rejects.

    It is tried under a name of its own: an object that a crashed run has left does not matter.
    A quota is not seen here: only the creation of a pod shows it.

    :param where: the user's file, for the message.
    :raises WrongInput: it is rejected, with the API server's words.
    """
    name = f"{workload['metadata']['name']}-{_TRIAL}"
    trial = {**workload, "metadata": {**workload["metadata"], "name": name}}
    try:
        warnings = kube.try_apply(trial)
    except WrongInput as error:
        raise WrongInput(
            where=where, field=error.field, value=error.value, allowed=error.allowed
        ) from error
    violated = violated_level(warnings, kube.get("Namespace", kube.namespace) or {})
    if violated is not None:
        level, fields = violated
        raise WrongInput(
            where=where,
            field="spec.template",
            value=f'a pod that violates PodSecurity "{level}"',
            allowed=f"a pod that namespace {kube.namespace} admits. The API server says what to "
            f"change: {fields}. An example is in docs/own-consumer.md",
        )


_LAST_CHARACTERS = 1000


def logs_of_pod(kube: Kube, pod: Mapping[str, Any]) -> dict[str, str]:
    """Return what the pod's containers have written so far, by POD or, if several, POD.CONTAINER.

    A container that has not started is left out, and so is a pod that no longer exists.
    """
    name = str(pod["metadata"]["name"])
    containers = [str(container["name"]) for container in pod["spec"]["containers"]]
    found: dict[str, str] = {}
    for container in containers:
        with suppress(NotReady):
            text = kube.pod_logs(name, container)
            found[name if len(containers) == 1 else f"{name}.{container}"] = text
    return found


def last_words(kube: Kube, pod: Mapping[str, Any]) -> str:
    """Return the end of each log of the pod, for a message; of several with their names."""
    ends = {name: text[-_LAST_CHARACTERS:] for name, text in logs_of_pod(kube, pod).items()}
    if len(ends) == 1:
        return next(iter(ends.values()))
    return "; ".join(f"{name}: {end}" for name, end in ends.items())
