"""Conditions and fields of a ScaledObject's status, as KEDA words them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lagbench.core.hpa import Condition, ScaleTarget
from lagbench.core.keda.loop import COMPOSITE_METRIC, MetricHealth, MetricSpec, TriggerPoll
from lagbench.core.keda.object import ScaledObjectSpec

READY_UNKNOWN = Condition("Ready", "Unknown")
ACTIVE_UNKNOWN = Condition("Active", "Unknown")
NEVER_PAUSED = Condition("Paused", "False")
PAUSED = Condition("Paused", "True", "ScaledObjectPaused", "ScaledObject is paused")
UNPAUSED = Condition(
    "Paused", "False", "ScaledObjectUnpaused", "pause annotation removed for ScaledObject"
)
READY_WHILE_PAUSED = Condition("Ready", "True", "ScaledObjectReady", "ScaledObject is paused")
CHECK_FAILED_ACTIVE = Condition("Active", "Unknown", "UnknownState", "ScaledObject check failed")


def check_failed(message: str) -> Condition:
    """Return the Ready condition of an object that cannot be scaled as it is."""
    return Condition("Ready", "False", "ScaledObjectCheckFailed", message)


def hpa_active(scaling_active: dict[str, Any]) -> Condition:
    """Return KEDA's mirror of the HPA's ScalingActive condition."""
    reason, message = scaling_active.get("reason", ""), scaling_active.get("message", "")
    if scaling_active.get("status") == "True":
        return Condition("HPAActive", "True", "HPAActive", "HPA is actively scaling")
    if reason == "ScalingDisabled":
        # KEDA holds a target at zero: that is no fault of the HPA.
        return Condition("HPAActive", "True", reason, message)
    return Condition("HPAActive", "False", reason, f"HPA is not actively scaling: {message}")


def static_fields(
    spec: ScaledObjectSpec, metrics: Sequence[MetricSpec], external_names: Sequence[str]
) -> dict[str, Any]:
    """Return the fields that follow from the spec and the metrics of its triggers."""
    references = [trigger.authentication_ref for trigger in spec.triggers]
    return {
        "externalMetricNames": list(external_names) or None,
        "resourceMetricNames": [item.name for item in metrics if item.kind == "Resource"] or None,
        "compositeScalerName": COMPOSITE_METRIC if spec.modifiers is not None else None,
        "hpaName": spec.hpa_name,
        "triggersTypes": _listed(trigger.type for trigger in spec.triggers),
        "authenticationsTypes": _listed(item.name for item in references if item is not None),
        "pausedReplicaCount": None,
    }


def target_fields(target: ScaleTarget) -> dict[str, Any]:
    """Return the fields that name the target."""
    group, _, version = target.api_version.rpartition("/")
    return {
        "scaleTargetKind": f"{target.api_version}.{target.kind}",
        "scaleTargetGVKR": {
            "group": group,
            "version": version,
            "kind": target.kind,
            "resource": f"{target.kind.lower()}s",
        },
    }


def activity_fields(
    spec: ScaledObjectSpec, external_names: Iterable[str], polls: Sequence[TriggerPoll]
) -> dict[str, Any]:
    """Return which triggers are active; none is by itself where a formula decides."""
    active = {poll.metric_name for poll in polls if poll.is_active and spec.modifiers is None}
    activity = {name: {"isActive": name in active} for name in external_names}
    return {"triggersActivity": activity or None}


def health_fields(health: Mapping[str, MetricHealth]) -> dict[str, Any]:
    """Return the failure counters."""
    counters = {
        name: {
            "numberOfFailures": item.failures,
            "status": "Failing" if item.is_failing else "Happy",
        }
        for name, item in health.items()
    }
    return {"health": counters or None}


def parse_health(status: Mapping[str, Any]) -> dict[str, MetricHealth]:
    """Return the failure counters that a status holds."""
    return {
        name: MetricHealth(item.get("numberOfFailures", 0), item.get("status") == "Failing")
        for name, item in (status.get("health") or {}).items()
    }


def _listed(names: Iterable[str]) -> str:
    return ",".join(sorted(set(names)))
