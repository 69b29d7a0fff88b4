"""The HorizontalPodAutoscaler that KEDA makes from a ScaledObject."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.core.quantity import format_milli
from lagbench.core.scaled_object import API_VERSION, KIND, ScaledObjectSpec, Trigger

SCALED_OBJECT_LABEL = "scaledobject.keda.sh/name"
KEDA_VERSION = "2.21.0"


def build_hpa(spec: ScaledObjectSpec, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the HPA object; ``metadata`` is the ScaledObject's (uid, labels, annotations)."""
    labels = {
        **(metadata.get("labels") or {}),
        "app.kubernetes.io/managed-by": "keda-operator",
        "app.kubernetes.io/name": spec.hpa_name,
        "app.kubernetes.io/part-of": spec.name,
        "app.kubernetes.io/version": KEDA_VERSION,
        SCALED_OBJECT_LABEL: spec.name,
    }
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
            "labels": labels,
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [owner],
        },
        "spec": _hpa_spec(spec),
    }


def _hpa_spec(spec: ScaledObjectSpec) -> dict[str, Any]:
    hpa: dict[str, Any] = {
        "scaleTargetRef": {
            "apiVersion": spec.target.api_version,
            "kind": spec.target.kind,
            "name": spec.target.name,
        },
        # Zero is KEDA's own business: the HPA never goes below one.
        "minReplicas": spec.floor if spec.floor > 0 else 1,
        "maxReplicas": spec.max_replica_count,
        "metrics": [_metric(spec, trigger) for trigger in spec.triggers],
    }
    if spec.behavior is not None:
        hpa["behavior"] = spec.behavior
    return hpa


def _metric(spec: ScaledObjectSpec, trigger: Trigger) -> dict[str, Any]:
    key = "value" if trigger.metric_type == "Value" else "averageValue"
    amount = format_milli(trigger.parameters.target_milli)
    identity = {
        "name": trigger.metric_name,
        "selector": {"matchLabels": {SCALED_OBJECT_LABEL: spec.name}},
    }
    target = {"type": trigger.metric_type, key: amount}
    return {"type": "External", "external": {"metric": identity, "target": target}}
