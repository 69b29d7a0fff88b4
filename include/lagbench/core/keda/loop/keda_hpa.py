"""The HorizontalPodAutoscaler that KEDA makes from a ScaledObject."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lagbench.core.hpa.controller_flags import version_of
from lagbench.core.keda.loop.scalers import COMPOSITE_METRIC, MetricSpec
from lagbench.core.keda.loop.zero_and_minimum import READY
from lagbench.core.keda.object.scaled_object_spec import (
    API_VERSION,
    EXCLUDED_LABELS,
    KIND,
    PAUSED,
    ScaledObjectSpec,
    parse_scaling_annotations,
)
from lagbench.core.kubernetes_values import format_milli

SCALED_OBJECT_LABEL = "scaledobject.keda.sh/name"

KEDA_VERSION = "2.21.0"

VERSION_LABEL = "app.kubernetes.io/version"
"""KEDA writes its own version here on each HPA that it makes."""

# KEDA sorts by type; with scalingModifiers it keeps "Resource" only.
_RANK = {"ContainerResource": 0, "External": 1, "Resource": 2}


def build_hpa(
    spec: ScaledObjectSpec, metadata: Mapping[str, Any], metric_specs: Sequence[MetricSpec]
) -> dict[str, Any]:
    """Return the HPA object; ``metadata`` is the ScaledObject's (uid, labels, annotations).

    ``metric_specs``: those of all triggers; a composite metric takes the external ones' place here.
    """
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": spec.name,
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": spec.hpa_name,
            "namespace": spec.namespace,
            "labels": _labels(spec, metadata),
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [owner],
        },
        "spec": _hpa_spec(spec, metric_specs),
    }


def _labels(spec: ScaledObjectSpec, metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return KEDA's labels under those of the ScaledObject, which win."""
    annotations = metadata.get("annotations") or {}
    excluded = set(str(annotations.get(EXCLUDED_LABELS, "")).split(","))
    own = {SCALED_OBJECT_LABEL: spec.name, **(metadata.get("labels") or {})}
    return {
        "app.kubernetes.io/managed-by": "keda-operator",
        "app.kubernetes.io/name": spec.hpa_name,
        "app.kubernetes.io/part-of": spec.name,
        VERSION_LABEL: KEDA_VERSION,
        **{key: value for key, value in own.items() if key not in excluded},
    }


def _hpa_spec(spec: ScaledObjectSpec, metric_specs: Sequence[MetricSpec]) -> dict[str, Any]:
    hpa: dict[str, Any] = {
        "scaleTargetRef": {
            "apiVersion": spec.target.api_version,
            "kind": spec.target.kind,
            "name": spec.target.name,
        },
        # Zero is KEDA's own business: the HPA never goes below one.
        "minReplicas": spec.floor if spec.floor > 0 else 1,
        "maxReplicas": spec.max_replica_count,
        "metrics": [_metric(spec, item) for item in _of_the_hpa(spec, metric_specs)],
    }
    behavior = _behavior(spec)
    if behavior is not None:
        hpa["behavior"] = behavior
    return hpa


def _of_the_hpa(spec: ScaledObjectSpec, metric_specs: Sequence[MetricSpec]) -> list[MetricSpec]:
    """Return the HPA's metrics in KEDA's order."""
    ordered = sorted(metric_specs, key=lambda item: _RANK[_type(item)])
    if spec.modifiers is None:
        return ordered
    kind, target = spec.modifiers.metric_type, spec.modifiers.target_milli
    composite = MetricSpec(COMPOSITE_METRIC, "External", kind, target)
    return [*(item for item in ordered if _type(item) == "Resource"), composite]


def _type(item: MetricSpec) -> str:
    return "ContainerResource" if item.container_name else item.kind


def _behavior(spec: ScaledObjectSpec) -> dict[str, Any] | None:
    """Return the behavior as written, with the directions that annotations hold back disabled."""
    behavior = spec.behavior
    for is_paused, side in (
        (spec.annotations.scale_in_paused, "scaleDown"),
        (spec.annotations.scale_out_paused, "scaleUp"),
    ):
        if is_paused:
            rules = (behavior or {}).get(side) or {}
            behavior = {**(behavior or {}), side: {**rules, "selectPolicy": "Disabled"}}
    return behavior


def _metric(spec: ScaledObjectSpec, item: MetricSpec) -> dict[str, Any]:
    kind = _type(item)
    if kind == "External":
        identity = {
            "name": item.name,
            "selector": {"matchLabels": {SCALED_OBJECT_LABEL: spec.name}},
        }
        return {"type": kind, "external": {"metric": identity, "target": _target(item)}}
    resource: dict[str, Any] = {"name": item.name, "target": _target(item)}
    if kind == "ContainerResource":
        resource["container"] = item.container_name
        return {"type": kind, "containerResource": resource}
    return {"type": kind, "resource": resource}


def _target(item: MetricSpec) -> dict[str, Any]:
    if item.target_type == "Utilization":
        return {"type": "Utilization", "averageUtilization": item.target_percent}
    key = "value" if item.target_type == "Value" else "averageValue"
    return {"type": item.target_type, key: format_milli(item.target_milli)}


SCALED_BY = "lagbench.io/scaled-by"

CONTROLLER = "lagbench-autoscaler"

_PAUSED_CONDITION = "Paused"


def is_handed_over(manifest: Mapping[str, Any]) -> bool:
    """Return whether a ScaledObject names this controller."""
    annotations = manifest["metadata"].get("annotations") or {}
    return annotations.get(SCALED_BY) == CONTROLLER


def autoscaler_version(
    policy: Mapping[str, Any], hpa: Mapping[str, Any], *, is_embedded: bool
) -> dict[str, str]:
    """Return the version of the KEDA that drives ``policy``, or those of our autoscaler's rules.

    ``hpa``: the live HPA, on which KEDA writes its version; ``unknown`` if it is not there. On a
    cluster empty for a policy that is an HPA: Kubernetes alone scales then, and the manifest has
    its version.
    """
    is_hpa = policy["kind"] != KIND
    if is_embedded or (not is_hpa and is_handed_over(policy)):
        keda = {} if is_hpa else {"keda-rules": KEDA_VERSION}
        return {**keda, "kubernetes-rules": version_of(policy)}
    if is_hpa:
        return {}
    version = ((hpa.get("metadata") or {}).get("labels") or {}).get(VERSION_LABEL)
    return {"keda": "unknown" if version is None else str(version)}


def is_driven(manifest: Mapping[str, Any]) -> bool:
    """Return whether the controller has taken a stored object up: Ready, and not as KEDA calls it.

    KEDA calls an object that it has paused Ready too, with a message of its own.
    """
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return any(
        (item.get("type"), item.get("status")) == (READY.type, READY.status)
        and item.get("message") == READY.message
        for item in conditions
    )


def unpaused_problem(manifest: Mapping[str, Any]) -> str:
    """Return why a handed-over object has two controllers; empty if KEDA is paused for it."""
    if parse_scaling_annotations(manifest).is_paused:
        return ""
    metadata = manifest["metadata"]
    return (
        f"ScaledObject {metadata['namespace']}/{metadata['name']} is marked {SCALED_BY}: "
        f"{CONTROLLER}, but KEDA is not paused for it, and two controllers on one target undo "
        f'each other\'s changes. Annotate it with {PAUSED}: "true", or remove that annotation to '
        "let KEDA drive it"
    )


def standing_hpa_problem(manifest: Mapping[str, Any], hpa: str) -> str:
    """Return what to say of an HPA of the cluster that is on the target of such an object."""
    metadata = manifest["metadata"]
    return (
        f"ScaledObject {metadata['namespace']}/{metadata['name']} is handed over to "
        f"{CONTROLLER}, but the HPA {hpa} is on its target, and Kubernetes acts on it. KEDA "
        "deletes its HPA within a second of the pause; if KEDA is stopped, delete the HPA by hand"
    )


def hpa_on_target(manifest: Mapping[str, Any], hpas: Iterable[Mapping[str, Any]]) -> str:
    """Return the name of an HPA on the target of a ScaledObject; empty without one."""
    wanted = (manifest["metadata"]["namespace"], *_target_of(manifest))
    names = [
        str(hpa["metadata"]["name"])
        for hpa in hpas
        if (hpa["metadata"]["namespace"], *_target_of(hpa)) == wanted
    ]
    return min(names, default="")


def as_driven(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ScaledObject without the pause that is meant for KEDA.

    A count to pause at (``paused-replicas``) stays: both controllers then hold that count.
    """
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != PAUSED}
    conditions = without_paused(status.get("conditions") or ())
    return {
        **manifest,
        "metadata": {**metadata, "annotations": annotations},
        "status": {**status, "conditions": conditions},
    }


def without_paused(conditions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the conditions except Paused, which stays KEDA's."""
    return [item for item in conditions if item.get("type") != _PAUSED_CONDITION]


def with_paused_of(
    conditions: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Return the conditions with Paused as the stored object has it."""
    stored = (manifest.get("status") or {}).get("conditions") or ()
    kept = [item for item in stored if item.get("type") == _PAUSED_CONDITION]
    return [*without_paused(conditions), *kept]


def _target_of(manifest: Mapping[str, Any]) -> tuple[str, str]:
    given = (manifest.get("spec") or {}).get("scaleTargetRef") or {}
    return given.get("kind") or "Deployment", str(given.get("name"))
