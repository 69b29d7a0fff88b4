"""The parts of a ScaledObject's spec beside its triggers, read as the CRD has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.core.hpa import ScaleTarget
from lagbench.core.keda.object.hpa_config import check_hpa_config
from lagbench.core.kubernetes import boolean, optional_whole, refuse_unknown_fields, text, whole
from lagbench.errors import WrongInput

API_VERSION, KIND = "keda.sh/v1alpha1", "ScaledObject"
DEFAULT_MAX_REPLICAS = 100
"""KEDA's default of ``maxReplicaCount``."""
_SPEC_FIELDS = (
    "scaleTargetRef",
    "pollingInterval",
    "cooldownPeriod",
    "initialCooldownPeriod",
    "idleReplicaCount",
    "minReplicaCount",
    "maxReplicaCount",
    "advanced",
    "triggers",
    "fallback",
)
_TARGET_FIELDS = ("name", "apiVersion", "kind", "envSourceContainerName")
_ADVANCED_FIELDS = (
    "horizontalPodAutoscalerConfig",
    "restoreToOriginalReplicaCount",
    "scalingModifiers",
)


def check_kind(manifest: Mapping[str, Any], where: str) -> None:
    """Reject an object of another kind or version."""
    if (manifest.get("apiVersion"), manifest.get("kind")) != (API_VERSION, KIND):
        kind = f"{manifest.get('apiVersion')} {manifest.get('kind')}"
        raise WrongInput(where=where, field="kind", value=kind, allowed=f"{API_VERSION} {KIND}")


def read_spec(manifest: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return ``spec`` once its fields are known."""
    return refuse_unknown_fields(manifest.get("spec"), _SPEC_FIELDS, where=where, field="spec")


def read_counts(spec: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the numbers of the spec under the names of ``ScaledObjectSpec``."""
    return {
        "polling_interval_seconds": whole(spec, "pollingInterval", default=30, low=1, where=where),
        "cooldown_seconds": whole(spec, "cooldownPeriod", default=300, low=0, where=where),
        "initial_cooldown_seconds": whole(
            spec, "initialCooldownPeriod", default=0, low=0, where=where
        ),
        "idle_replica_count": optional_whole(spec, "idleReplicaCount", low=0, where=where),
        "min_replica_count": optional_whole(spec, "minReplicaCount", low=0, where=where),
        "max_replica_count": whole(
            spec, "maxReplicaCount", default=DEFAULT_MAX_REPLICAS, low=1, where=where
        ),
    }


def read_advanced(advanced: object, name: str, where: str) -> Mapping[str, Any]:
    """Return ``spec.advanced`` of the object ``name`` once its fields are known."""
    field = "spec.advanced"
    known = refuse_unknown_fields(advanced, _ADVANCED_FIELDS, where=where, field=field)
    boolean(known, "restoreToOriginalReplicaCount", where=where, field=field)
    config = known.get("horizontalPodAutoscalerConfig")
    check_hpa_config(config, where=where, scaled_object=name)
    return known


def read_target(target: object, where: str) -> ScaleTarget:
    """Return the workload, a Deployment unless it says otherwise."""
    field = "spec.scaleTargetRef"
    known = refuse_unknown_fields(target, _TARGET_FIELDS, where=where, field=field)
    if not known.get("name"):
        raise WrongInput(
            where=where, field=f"{field}.name", value=known.get("name"), allowed="a workload's name"
        )
    for key in _TARGET_FIELDS:
        text(known, key, where=where, field=field)
    return ScaleTarget(
        api_version=known.get("apiVersion") or "apps/v1",
        kind=known.get("kind") or "Deployment",
        name=known["name"],
    )
