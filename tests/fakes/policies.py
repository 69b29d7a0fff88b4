"""Policies for tests: a good ScaledObject and a good HPA, with fields replaced."""

from __future__ import annotations

import copy
from typing import Any

from lagbench.core.policy.policy import Policy
from lagbench.core.policy.policy_limits import PolicyLimits

METADATA = {
    "bootstrapServers": "kafka:9092",
    "consumerGroup": "g",
    "topic": "t",
    "lagThreshold": "500",
    "offsetResetPolicy": "earliest",
}
EXTERNAL: dict[str, Any] = {"type": "external", "metadata": {"scalerAddress": "s:6000"}}
LAG_SCALER = {"type": "external", "metadata": {**METADATA, "scalerAddress": "s:6000"}}
CPU = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}
_HOURS = {"timezone": "Etc/UTC", "start": "0 8 * * *", "end": "0 18 * * *"}
_SPEC: dict[str, Any] = {
    "scaleTargetRef": {"name": "w"},
    "minReplicaCount": 2,
    "maxReplicaCount": 12,
    "advanced": {
        "horizontalPodAutoscalerConfig": {
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 300}}
        }
    },
}


def kafka(**metadata: str | None) -> dict[str, Any]:
    """Return a kafka trigger with some parameters replaced; None takes one away."""
    given = {**METADATA, **metadata}
    return {"type": "kafka", "metadata": {k: text for k, text in given.items() if text is not None}}


def cron(desired: int = 5, **metadata: str) -> dict[str, Any]:
    """Return hours with so many pods."""
    return {"type": "cron", "metadata": {**_HOURS, "desiredReplicas": str(desired), **metadata}}


def prometheus(query: str) -> dict[str, Any]:
    """Return a trigger on a query with the threshold 5."""
    metadata = {"serverAddress": "http://p:9090", "query": query, "threshold": "5"}
    return {"type": "prometheus", "metadata": metadata}


def behavior(**rules: Any) -> dict[str, Any]:
    """Return ``advanced`` with a behavior of these rules."""
    return {"horizontalPodAutoscalerConfig": {"behavior": rules}}


def composite(formula: str, **more: str) -> dict[str, Any]:
    """Return the spec of two named triggers under a formula."""
    triggers = [{**kafka(), "name": "a"}, {**kafka(), "name": "b"}]
    modifiers = {"formula": formula, "target": "10", **more}
    return {"triggers": triggers, "advanced": {"scalingModifiers": modifiers}}


def scaled_object(
    annotations: dict[str, str] | None = None, metadata: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """Return a good ScaledObject with fields of its spec replaced; None takes one away."""
    whole = {**copy.deepcopy(_SPEC), "triggers": [kafka()], **spec}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "so", "annotations": annotations or {}, **(metadata or {})},
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


def hpa(version: str | None = "autoscaling/v2", **spec: Any) -> dict[str, Any]:
    """Return a good HPA with fields of its spec replaced."""
    whole = {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec}
    made = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}, "spec": whole}
    return made if version is None else {"apiVersion": version, **made}


def limits(annotations: dict[str, str] | None = None, **spec: Any) -> PolicyLimits:
    """Return the limits of such a ScaledObject."""
    return Policy.read(scaled_object(annotations, **spec), where="policy.yaml").limits
