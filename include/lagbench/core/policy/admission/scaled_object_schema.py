"""The published schemas of KEDA 2.21's ScaledObject and of the HPA behavior inside it."""

from __future__ import annotations

from lagbench.core.policy.admission.schema import (
    Schema,
    anything,
    entry,
    flag,
    rows,
    text,
    texts,
    whole,
)

FALLBACK_BEHAVIORS = (
    "static",
    "currentReplicas",
    "currentReplicasIfHigher",
    "currentReplicasIfLower",
    "scalingModifiers",
)

_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"

_SCALING_POLICY = entry(
    "HPAScalingPolicy",
    {"type": text(), "value": whole(), "periodSeconds": whole()},
    "periodSeconds",
    "type",
    "value",
)
# Bounds of the behavior are not in this schema: the API server checks them on KEDA's HPA.
_SCALING_RULES = entry(
    "HPAScalingRules",
    {
        "policies": rows(_SCALING_POLICY),
        "selectPolicy": text(),
        "stabilizationWindowSeconds": whole(),
        "tolerance": Schema("integer,string", pattern=QUANTITY),
    },
)
BEHAVIOR = entry(
    "HorizontalPodAutoscalerBehavior", {"scaleDown": _SCALING_RULES, "scaleUp": _SCALING_RULES}
)
_MODIFIERS = entry(
    "ScalingModifiers",
    {
        "activationTarget": text(),
        "formula": text(),
        "metricType": text(enum=("AverageValue", "Value")),
        "target": text(),
    },
)
_ADVANCED = entry(
    "AdvancedConfig",
    {
        "horizontalPodAutoscalerConfig": entry(
            "HorizontalPodAutoscalerConfig", {"behavior": BEHAVIOR, "name": text()}
        ),
        "restoreToOriginalReplicaCount": flag(),
        "scalingModifiers": _MODIFIERS,
    },
)
_FALLBACK = entry(
    "Fallback",
    {
        "behavior": text(enum=FALLBACK_BEHAVIORS),
        "failureThreshold": whole(0),
        "replicas": whole(0),
    },
    "failureThreshold",
    "replicas",
)
_TARGET = entry(
    "ScaleTarget",
    {
        "apiVersion": text(),
        "envSourceContainerName": text(),
        "kind": text(),
        "name": text(min_length=1),
    },
    "name",
)
_TRIGGER = entry(
    "ScaleTriggers",
    {
        "authenticationRef": entry(
            "AuthenticationRef",
            {
                "kind": text(enum=("TriggerAuthentication", "ClusterTriggerAuthentication")),
                "name": text(),
            },
            "name",
        ),
        "metadata": texts(),
        "metricType": text(),
        "name": text(),
        "type": text(min_length=1),
        "useCachedMetrics": flag(),
    },
    "metadata",
    "type",
)
SPEC = entry(
    "ScaledObjectSpec",
    {
        "advanced": _ADVANCED,
        "cooldownPeriod": whole(0),
        "fallback": _FALLBACK,
        "idleReplicaCount": whole(0),
        "initialCooldownPeriod": whole(0),
        "maxReplicaCount": whole(1),
        "minReplicaCount": whole(0),
        "pollingInterval": whole(1),
        "scaleTargetRef": _TARGET,
        "triggers": rows(_TRIGGER, min_items=1),
    },
    "scaleTargetRef",
    "triggers",
)
_CONDITION = entry(
    "Condition", {"message": text(), "reason": text(), "status": text(), "type": text()}
)
# What a person writes there is dropped, after the names of its fields were looked at.
_STATUS = entry(
    "ScaledObjectStatus",
    {
        "authenticationsTypes": text(),
        "compositeScalerName": text(),
        "conditions": rows(_CONDITION),
        "externalMetricNames": rows(text()),
        "health": Schema(
            "object",
            values=entry("HealthStatus", {"numberOfFailures": whole(), "status": text()}),
        ),
        "hpaName": text(),
        "lastActiveTime": text(),
        "originalReplicaCount": whole(),
        "pausedReplicaCount": whole(),
        "resourceMetricNames": rows(text()),
        "scaleTargetGVKR": entry(
            "GroupVersionKindResource",
            {"group": text(), "kind": text(), "resource": text(), "version": text()},
        ),
        "scaleTargetKind": text(),
        "triggersActivity": Schema(
            "object", values=entry("TriggerActivityStatus", {"isActive": flag()})
        ),
        "triggersTypes": text(),
    },
)
SCALED_OBJECT = entry(
    "ScaledObject",
    {
        "apiVersion": text(),
        "kind": text(),
        "metadata": anything(),  # see object_meta
        "spec": SPEC,
        "status": _STATUS,
    },
    "spec",
)
