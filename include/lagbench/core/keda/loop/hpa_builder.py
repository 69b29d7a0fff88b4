"""The HorizontalPodAutoscaler that KEDA makes from a ScaledObject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lagbench.core.keda.loop.metric_specs import composite_metric_spec
from lagbench.core.keda.loop.scaler import MetricSpec
from lagbench.core.keda.object.spec import API_VERSION, EXCLUDED_LABELS, KIND, ScaledObjectSpec
from lagbench.core.kubernetes.quantity import format_milli

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
    resources = (item for item in ordered if _type(item) == "Resource")
    return [*resources, composite_metric_spec(spec.modifiers)]


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
