"""Conditions and fields of a ScaledObject's status, as KEDA words them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lagbench.core.hpa_spec import ScaleTarget
from lagbench.core.hpa_state import Condition
from lagbench.core.keda import TriggerPoll
from lagbench.core.scaled_object import ScaledObjectSpec

NO_FALLBACK = Condition(
    "Fallback", "False", "NoFallbackFound", "No fallbacks are active on this scaled object"
)
NOT_PAUSED = Condition("Paused", "False")
STATE_UNKNOWN = Condition("Active", "Unknown", "UnknownState", "ScaledObject check failed")


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


def static_fields(spec: ScaledObjectSpec) -> dict[str, Any]:
    """Return the fields that follow from the spec alone."""
    return {
        "externalMetricNames": [trigger.metric_name for trigger in spec.triggers],
        "hpaName": spec.hpa_name,
        "triggersTypes": ",".join(sorted({trigger.type for trigger in spec.triggers})),
        "authenticationsTypes": "",
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


def activity_fields(polls: Sequence[TriggerPoll]) -> dict[str, Any]:
    """Return which triggers are active."""
    return {"triggersActivity": {poll.metric_name: {"isActive": poll.is_active} for poll in polls}}
