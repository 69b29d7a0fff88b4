"""The workloads of a run: put its policy in force, wait for its pods, remove them."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import yaml

from lagbench.adapters.kube.kube import Kube, Manifest
from lagbench.core.cluster.manifests import is_foreign
from lagbench.core.cluster.policy_manifest import HPA, POLICY_KINDS, SCALED_OBJECT
from lagbench.core.keda.loop.keda_hpa import is_driven, is_handed_over
from lagbench.core.keda.object.scaled_object_rules import hpa_name
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.run_names import RUN_ID_ANNOTATION, RUN_ID_LABEL, SWAP_ANNOTATION
from lagbench.core.workload_state import is_ready, refused_pods, repeated_ends, violated_level
from lagbench.errors import NotReady, PodsEnded, PodsRefused, WrongInput

PODS_GONE_TIMEOUT_SECONDS = 180.0
_AFTER_GRACE_SECONDS = 30.0
"""For the end of a pod whose processes are killed after its grace period."""
_DEFAULT_GRACE_SECONDS = 30
WORKLOADS = ("Job", "Deployment", "StatefulSet", "Service")
POLICY_GONE_TIMEOUT_SECONDS = 60.0


def remove_workloads(
    kube: Kube, label_selector: str, kinds: Sequence[str] = WORKLOADS
) -> list[str]:
    """Delete policies first, then the other ``kinds``; wait until policies and pods are deleted.

    Only objects with the labels: a foreign ScaledObject may have the same name.
    """
    removed: list[str] = []
    for kind in (*POLICY_KINDS, *kinds):
        for found in kube.list(kind, label_selector=label_selector):
            name = found["metadata"]["name"]
            if kube.delete(kind, name):
                removed.append(f"{kind}/{name}")
    # KEDA takes its finalizer off when it has let the target go; without KEDA it stays for good.
    for kind in POLICY_KINDS:
        kube.wait_gone(
            kind, label_selector=label_selector, timeout_seconds=POLICY_GONE_TIMEOUT_SECONDS
        )
    longest_seconds = leaving_seconds(kube.list("Pod", label_selector=label_selector))
    within_seconds = max(PODS_GONE_TIMEOUT_SECONDS, longest_seconds)
    kube.wait_gone("Pod", label_selector=label_selector, timeout_seconds=within_seconds)
    return removed


def leaving_seconds(pods: Iterable[Manifest]) -> float:
    """Return how long deleted pods may take: those of a user may have a long grace period."""
    graces = (
        float((pod.get("spec") or {}).get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS))
        for pod in pods
    )
    return max(graces, default=_DEFAULT_GRACE_SECONDS) + _AFTER_GRACE_SECONDS


HAD_REPLICAS = "lagbench.io/replicas-before-action"
_GONE_SECONDS, _READY_SECONDS = 60.0, 60.0


def set_aside(kube: Kube, deployment: str) -> None:
    """Scale ``deployment`` to zero and note its replicas; return when it has no pod."""
    found = kube.get("Deployment", deployment)
    if found is None:
        raise NotReady(f"there is no Deployment {deployment} in namespace {kube.namespace}")
    had = _noted(found) or int(found["spec"].get("replicas", 1))
    note = {"annotations": {HAD_REPLICAS: str(had)}}
    kube.merge("Deployment", deployment, {"metadata": note, "spec": {"replicas": 0}})
    labels = found["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    kube.wait_gone("Pod", label_selector=selector, timeout_seconds=_GONE_SECONDS)


def bring_back(kube: Kube, deployment: str) -> bool:
    """Give ``deployment`` its noted replicas back and wait until they are Ready; False: none noted.

    :raises NotReady: its pods do not become Ready.
    """
    found = kube.get("Deployment", deployment)
    had = None if found is None else _noted(found)
    if had is None:
        return False
    note = {"annotations": {HAD_REPLICAS: None}}
    kube.merge("Deployment", deployment, {"metadata": note, "spec": {"replicas": had}})

    def is_back(kube: Kube) -> bool:
        status = (kube.get("Deployment", deployment) or {}).get("status") or {}
        return int(status.get("readyReplicas") or 0) >= had

    kube.wait_until(
        is_back, timeout_seconds=_READY_SECONDS, what=f"{had} Ready pods of Deployment/{deployment}"
    )
    return True


def _noted(deployment: dict[str, Any]) -> int | None:
    text = (deployment["metadata"].get("annotations") or {}).get(HAD_REPLICAS)
    return None if text is None else int(text)


TAKEN_UP_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class PutPolicy:
    """A policy in force: its difference from the one before, its generation, its HPA's content.

    The content is empty if the caller has not waited for it.
    """

    difference: str
    generation: int | None
    hpa: dict[str, Any]


def put_policy(
    kube: Kube, manifest: dict[str, Any], limits: PolicyLimits, *, waits: bool = True
) -> PutPolicy:
    """Apply the policy; return when the autoscaler has taken it up, or at once (not ``waits``).

    No policy of the other kind is left, and no field of the one before, also of another manager.

    :raises NotReady: the autoscaler has not taken it up in time; it may be in force.
    """
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    before = policy_in_force(kube, name)
    _delete_other_kind(kube, kind, name)
    applied = kube.apply(manifest)
    was = before["spec"] if before is not None and before["kind"] == kind else {}
    # Server-side apply leaves the fields that another manager has set (kubectl, Helm).
    if left := _left_over(was, applied["spec"], manifest["spec"]):
        applied = kube.merge(kind, name, {"spec": left})
    difference, hpa = policy_diff(before, applied), dict[str, Any]()
    if waits:
        hpa = _wait_taken_up(kube, manifest, limits, is_changed=bool(difference))
    return PutPolicy(difference, applied["metadata"].get("generation"), hpa)


def policy_in_force(kube: Kube, name: str) -> Manifest | None:
    """Return the ScaledObject or the HPA of that name; None: there is neither."""
    found = (kube.get(kind, name) for kind in POLICY_KINDS)
    return next((policy for policy in found if policy is not None), None)


def _left_over(before: Any, applied: Any, wanted: Any) -> dict[str, Any]:
    """Return a merge patch without the fields of ``before`` that ``wanted`` lacks."""
    patch: dict[str, Any] = {}
    for name in before.keys() & applied.keys():
        parts = [one.get(name) for one in (before, applied, wanted)]
        if name not in wanted:
            patch[name] = None
        elif all(isinstance(part, dict) for part in parts) and (inner := _left_over(*parts)):
            patch[name] = inner
    return patch


def policy_diff(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
    names: tuple[str, str] = ("before", "after"),
) -> str:
    """Return the change of the part that a person writes, as a unified diff."""
    kept = ("apiVersion", "kind", "spec")
    old, new = (
        yaml.safe_dump({key: found.get(key) for key in kept}, sort_keys=True).splitlines()
        if found is not None
        else []
        for found in (before, after)
    )
    return "\n".join(difflib.unified_diff(old, new, *names, lineterm=""))


def refuse_foreign_policy(kube: Kube, name: str) -> None:
    """Reject a policy that the check of the cluster missed: created since, or here by hand."""
    for kind in POLICY_KINDS:
        found = kube.get(kind, name)
        if found is not None and is_foreign(found):
            raise NotReady(
                f"{kind}/{name} exists, and no run created it (it has no label "
                f"{RUN_ID_LABEL}): the run's policy would replace it. Delete it, or rehearse in "
                "another namespace"
            )


def _delete_other_kind(kube: Kube, kind: str, name: str) -> None:
    """Delete the other kind, and KEDA's HPA with its ScaledObject: two autoscalers would fight."""
    other = HPA if kind == SCALED_OBJECT else SCALED_OBJECT
    found = kube.get(other, name)
    if found is None or not kube.delete(other, name):
        return
    status = found.get("status") or {}
    kedas = [(HPA, status.get("hpaName") or hpa_name(found))] if other == SCALED_OBJECT else []
    left = [(other, name), *kedas]
    kube.wait_until(
        lambda kube: all(kube.get(*object_) is None for object_ in left),
        timeout_seconds=TAKEN_UP_TIMEOUT_SECONDS,
        what=f"the former {other}/{name} to be deleted",
    )


def _wait_taken_up(
    kube: Kube, manifest: dict[str, Any], limits: PolicyLimits, *, is_changed: bool
) -> dict[str, Any]:
    """Wait until the autoscaler has read this policy; return the content of its HPA.

    That is name, spec, conditions and metadata (None while the HPA is in a controller's memory).

    KEDA has read the policy when the ScaledObject is Ready and its HPA has the policy's bounds and,
    if the policy changed, the run's id, copied from it: a swap in place may leave the bounds
    unchanged. The HPA controller has read it when it has written conditions, at its first sync
    (15 s); KEDA's HPA may not have them yet.
    """
    kind, own_name = manifest["kind"], manifest["metadata"]["name"]
    name = hpa_name(manifest) if kind == SCALED_OBJECT else own_name
    wanted = (max(limits.floor_replicas, 1), limits.ceiling_replicas)
    seen: dict[str, Any] = {}
    found: dict[str, Any] = {}

    def is_taken_up(kube: Kube) -> bool:
        policy, hpa = kube.get(kind, own_name) or {}, kube.get(HPA, name) or {}
        spec = hpa.get("spec") or {}
        bounds = (spec.get("minReplicas") or 1, spec.get("maxReplicas"))
        conditions = (policy.get("status") or {}).get("conditions") or []
        seen.update(hpa_bounds=bounds, wanted_bounds=wanted, conditions=conditions)
        found.update(name=name, spec=spec, conditions=(hpa.get("status") or {}).get("conditions"))
        found.update(metadata=hpa.get("metadata"))
        if is_handed_over(manifest):  # its HPA is in the controller's memory
            return is_driven(policy)
        if kind != SCALED_OBJECT:
            return bool(conditions)
        is_of_run = not is_changed or _run_id(hpa) == _run_id(manifest)
        return is_ready(policy) and bounds == wanted and is_of_run

    kube.wait_until(
        is_taken_up,
        timeout_seconds=TAKEN_UP_TIMEOUT_SECONDS,
        what=f"the autoscaler to take up {kind}/{own_name}",
        last_seen=lambda: str(seen),
    )
    return found


def _run_id(manifest: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the run, and the swap in the run, that wrote the object."""
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    return annotations.get(RUN_ID_ANNOTATION), annotations.get(SWAP_ANNOTATION)


READY_TIMEOUT_SECONDS = 60.0
CLUSTER_START_SECONDS = 300.0
"""For pods of a cluster: a node may have to be added, and a new node pulls the image."""
REFUSED_SECONDS = 5.0
"""Kubernetes tries ten times in that time, so what it is still counting does not end the wait."""
LOG_LINES, LOG_CHARACTERS = 5, 1000


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
    :raises PodsEnded: a pod ends again and again.
    """
    words: list[str] = []
    refused_since: list[float] = []  # empty while no pod is rejected

    def are_ready(kube: Kube) -> bool:
        found = kube.get(kind, name) or {}
        status = found.get("status") or {}
        generation = (found.get("metadata") or {}).get("generation", 0)
        is_current = status.get("observedGeneration", 0) >= generation
        require_lasting(kube, kube.list("Pod"), name)
        ready = status.get("readyReplicas") or 0
        refusal = refused_pods(found) if is_current else None
        words[:] = [f"{ready} Ready", *([] if refusal is None else [refusal])]
        if refusal is None:
            refused_since.clear()
        else:
            refused_since.append(time.monotonic())
            if refused_since[-1] - refused_since[0] >= REFUSED_SECONDS:
                raise PodsRefused(
                    f"Kubernetes creates no pod of {kind}/{name} in namespace {kube.namespace}. "
                    f"Change its pods in {written_in}, or what the namespace admits: {refusal}"
                )
        return is_current and ready >= replicas

    kube.wait_until(
        are_ready,
        timeout_seconds=timeout_seconds,
        what=f"{replicas} Ready pods of {kind}/{name}",
        last_seen=lambda: "; ".join([*words, *_what_keeps(kube, name)]),
    )


def require_lasting(kube: Kube, pods: Iterable[Mapping[str, Any]], workload: str) -> None:
    """Reject a workload with a pod whose container ends again and again: no wait can help."""
    for pod in pods:
        name, ended = str(pod["metadata"]["name"]), repeated_ends(pod)
        if ended is not None and name.startswith(f"{workload}-"):
            raise PodsEnded(f"Pod/{name}: {ended}{last_words(kube, pod)}")


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
        reported.append(f"Pod/{name}: {', '.join(dict.fromkeys(reasons))}{last_words(kube, pod)}")
    return reported


def last_words(kube: Kube, pod: Mapping[str, Any]) -> str:
    """Return the end of each log of the pod, to stand behind a message; empty: there is none."""
    ends = {
        name: " | ".join(text.strip()[-LOG_CHARACTERS:].splitlines()[-LOG_LINES:])
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
        allowed = f"a pod that namespace {kube.namespace} admits. The API server says what to "
        allowed += f"change: {fields}. An example is in docs/own-consumer.md"
        value = f'a pod that violates PodSecurity "{level}"'
        raise WrongInput(where=where, field="spec.template", value=value, allowed=allowed)


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
