"""Bring a ScaledObject's HPA into being, and keep it as the ScaledObject says."""

from __future__ import annotations

from typing import Any

from lagbench.core.hpa_spec import ScaleTarget, parse_hpa
from lagbench.core.keda_hpa import SCALED_OBJECT_LABEL, build_hpa
from lagbench.core.scaled_object import (
    ScaledObjectSpec,
    environment_container,
    parse_scaled_object,
)
from lagbench.errors import LagbenchError
from lagbench.programs.autoscaler.cluster import (
    HPA,
    SCALED_OBJECT,
    Cluster,
    ClusterError,
    Manifest,
    Scale,
    key_of,
)
from lagbench.programs.autoscaler.directory import Directory

FINALIZER = "finalizer.keda.sh"
_CONFLICT = 409


class CheckFailed(LagbenchError):
    """The object cannot be scaled as it and the world are; ``event`` is the event's reason."""

    def __init__(self, message: str, *, event: str, event_message: str = "") -> None:
        """Keep the condition's message and the event's, which is shorter."""
        super().__init__(message)
        self.event = event
        self.event_message = event_message or message


def parse(manifest: Manifest, cluster: Cluster) -> ScaledObjectSpec:
    """Return the spec, with ``...FromEnv`` taken from the target's container."""
    where = f"ScaledObject {'/'.join(key_of(manifest))}"
    return parse_scaled_object(manifest, where=where, environment=_environment(manifest, cluster))


def _environment(manifest: Manifest, cluster: Cluster) -> dict[str, str]:
    """Return the plain values of the target container's environment, if any trigger asks."""
    spec = manifest.get("spec") or {}
    triggers = spec.get("triggers")
    asks = any(
        str(key).endswith("FromEnv")
        for trigger in (triggers if isinstance(triggers, list) else [])
        if isinstance(trigger, dict)
        for key in trigger.get("metadata") or {}
    )
    target = spec.get("scaleTargetRef")
    if not asks or not isinstance(target, dict):
        return {}
    kind = (target.get("apiVersion") or "apps/v1", target.get("kind") or "Deployment")
    namespace = manifest["metadata"]["namespace"]
    workload = cluster.get(kind, (namespace, str(target.get("name"))))
    containers = workload["spec"]["template"]["spec"]["containers"]
    wanted = environment_container(manifest)
    chosen = [item for item in containers if not wanted or item["name"] == wanted][:1]
    if not chosen:
        text = f"couldn't find container with name {wanted} on Target object"
        message = f"error resolving secrets for ScaleTarget: {text}"
        raise CheckFailed(_hpa_failed(message), event="KEDAScalerFailed", event_message=message)
    return {item["name"]: item["value"] for item in chosen[0].get("env") or [] if "value" in item}


def check_target(spec: ScaledObjectSpec, cluster: Cluster) -> Scale:
    """Return the target's scale; a target that is not there fails the check."""
    try:
        return cluster.get_scale(spec.target, spec.namespace)
    except ClusterError as error:
        if not error.is_not_found:
            raise
        text = f"ScaledObject doesn't have correct scaleTargetRef specification: {error}"
        raise CheckFailed(text, event="ScaledObjectCheckFailed") from error


def check_sole_owner(manifest: Manifest, target: ScaleTarget, directory: Directory) -> None:
    """Refuse a target that another ScaledObject or a foreign HPA manages."""
    problem = directory.other_owner(manifest, target)
    if problem is not None:
        raise CheckFailed(problem, event="ScaledObjectCheckFailed")


def scalers_failed(error: LagbenchError) -> CheckFailed:
    """Return the failed check for a trigger whose source cannot be reached."""
    return CheckFailed(_hpa_failed(str(error)), event="KEDAScalerFailed", event_message=str(error))


def _hpa_failed(message: str) -> str:
    return f"failed to ensure HPA is correctly created for ScaledObject: {message}"


def ensure_metadata(manifest: Manifest, spec: ScaledObjectSpec, cluster: Cluster) -> None:
    """Add KEDA's label, and its finalizer where deletion has something to restore.

    KEDA always adds the finalizer; here only an object with restoreToOriginalReplicaCount can be
    held back, so that a deletion never waits for an autoscaler that is gone.
    """
    metadata = manifest["metadata"]
    change: dict[str, Any] = {}
    if (metadata.get("labels") or {}).get(SCALED_OBJECT_LABEL) != spec.name:
        change["labels"] = {SCALED_OBJECT_LABEL: spec.name}
    finalizers = metadata.get("finalizers") or []
    if spec.restores_replicas and FINALIZER not in finalizers:
        change["finalizers"] = [*finalizers, FINALIZER]
    if change:
        cluster.patch(SCALED_OBJECT, key_of(manifest), {"metadata": change})


def release(manifest: Manifest, cluster: Cluster) -> None:
    """Take the finalizer away, so that the deletion completes."""
    finalizers = manifest["metadata"].get("finalizers") or []
    left = [item for item in finalizers if item != FINALIZER]
    if left != finalizers:
        change: dict[str, Any] = {"metadata": {"finalizers": left or None}}
        cluster.patch(SCALED_OBJECT, key_of(manifest), change)


def ensure_hpa(manifest: Manifest, spec: ScaledObjectSpec, cluster: Cluster) -> None:
    """Create the HPA, or change the existing one in place (its history then goes on)."""
    wanted = build_hpa(spec, manifest["metadata"])
    key = (spec.namespace, spec.hpa_name)
    try:
        stored = cluster.get(HPA, key)
    except ClusterError as error:
        if not error.is_not_found:
            raise
        _create_hpa(wanted, cluster)
        return
    metadata = stored["metadata"]
    owner = wanted["metadata"]["ownerReferences"][0]
    owners = metadata.get("ownerReferences") or []
    if not any(item.get("uid") == owner["uid"] for item in owners):
        text = f"the hpa '{spec.hpa_name}' is not owned by this ScaledObject"
        raise CheckFailed(_hpa_failed(text), event="ScaledObjectCheckFailed")
    changed = {
        **stored,
        "apiVersion": HPA[0],
        "kind": HPA[1],
        "spec": wanted["spec"],
        "metadata": {
            **metadata,
            "labels": wanted["metadata"]["labels"],
            "annotations": wanted["metadata"]["annotations"],
        },
    }
    if not _is_same(stored, changed):
        cluster.replace(changed)


def _create_hpa(wanted: Manifest, cluster: Cluster) -> None:
    try:
        cluster.create(wanted)
    except ClusterError as error:
        if error.status == _CONFLICT:
            raise
        if 400 <= error.status < 500:
            raise CheckFailed(_hpa_failed(str(error)), event="ScaledObjectCheckFailed") from error
        raise


def _is_same(stored: Manifest, changed: Manifest) -> bool:
    """Compare what both mean, so that defaults of the API server make no difference."""
    before, after = stored["metadata"], changed["metadata"]
    return (
        before.get("labels") == after["labels"]
        and (before.get("annotations") or {}) == after["annotations"]
        and parse_hpa(stored, where="stored HPA") == parse_hpa(changed, where="new HPA")
    )
