"""Bring a ScaledObject's HPA into being, and keep it as the ScaledObject says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lagbench.adapters.kube.cluster_protocol import (
    HPA,
    SCALED_OBJECT,
    Cluster,
    ClusterError,
    Manifest,
    Scale,
    key_of,
)
from lagbench.core.hpa import ScaleTarget, parse_hpa
from lagbench.core.keda.loop import SCALED_OBJECT_LABEL, MetricSpec, build_hpa
from lagbench.core.keda.object import ScaledObjectSpec, parse_scaled_object
from lagbench.core.keda.triggers import TargetEnvironment
from lagbench.errors import LagbenchError
from lagbench.programs.autoscaler.directory import Directory
from lagbench.programs.autoscaler.keda.authentication_values import read_authentications
from lagbench.programs.autoscaler.keda.target_environment import (
    ContainerMissing,
    read_target_environment,
)

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
    """Return the spec with secrets and ``...FromEnv`` values resolved as they are now."""
    where = f"ScaledObject {'/'.join(key_of(manifest))}"
    environment = _Environment(manifest, cluster)
    return parse_scaled_object(
        manifest,
        where=where,
        environment=environment.read().by_container[""] if _asks_environment(manifest) else None,
        auth=read_authentications(manifest, cluster, environment.read),
    )


class _Environment:
    """The target's environment, read when first asked for."""

    def __init__(self, manifest: Manifest, cluster: Cluster) -> None:
        self._manifest = manifest
        self._cluster = cluster
        self._found: TargetEnvironment | None = None

    def read(self) -> TargetEnvironment:
        if self._found is None:
            try:
                self._found = read_target_environment(self._manifest, self._cluster)
            except ContainerMissing as error:
                message = f"error resolving secrets for ScaleTarget: {error}"
                raise CheckFailed(
                    _hpa_failed(message), event="KEDAScalerFailed", event_message=message
                ) from error
        return self._found


def _asks_environment(manifest: Manifest) -> bool:
    triggers = (manifest.get("spec") or {}).get("triggers")
    return any(
        str(key).endswith("FromEnv")
        for trigger in (triggers if isinstance(triggers, list) else [])
        if isinstance(trigger, dict)
        for key in trigger.get("metadata") or {}
    )


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
    """Reject a target that another ScaledObject or a foreign HPA manages."""
    problem = directory.other_owner(manifest, target)
    if problem is not None:
        raise CheckFailed(problem, event="ScaledObjectCheckFailed")


def scalers_failed(error: LagbenchError) -> CheckFailed:
    """Return the failed check for a trigger whose source, or whose metrics, cannot be had."""
    return CheckFailed(_hpa_failed(str(error)), event="KEDAScalerFailed", event_message=str(error))


def _hpa_failed(message: str) -> str:
    return f"failed to ensure HPA is correctly created for ScaledObject: {message}"


def ensure_metadata(manifest: Manifest, spec: ScaledObjectSpec, cluster: Cluster) -> None:
    """Add KEDA's label, and its finalizer where deletion has something to restore.

    KEDA always adds the finalizer; here only an object with restoreToOriginalReplicaCount can be
    held back, so that a deletion never waits for an autoscaler that has ended.
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


def ensure_hpa(
    manifest: Manifest, spec: ScaledObjectSpec, metrics: Sequence[MetricSpec], cluster: Cluster
) -> None:
    """Create the HPA, or change the existing one in place (its history then continues)."""
    wanted = build_hpa(spec, manifest["metadata"], metrics)
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
