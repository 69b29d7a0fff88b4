"""What the measures need to know of a policy: floor, ceiling, and the lag one replica may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lagbench.errors import WrongInput

LAG_THRESHOLD_ANNOTATION = "lagbench.io/lag-threshold"
KEDA_DEFAULT_LAG_THRESHOLD = 10.0
KEDA_DEFAULT_CEILING = 100


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """Replica bounds and the lag threshold (per replica) with the rule that gave it."""

    floor_replicas: int
    ceiling_replicas: int
    lag_threshold_records: float | None
    threshold_rule: str


def policy_limits(manifest: Mapping[str, Any]) -> PolicyLimits:
    """Return the limits of a ScaledObject or a HorizontalPodAutoscaler.

    The threshold is the first trigger's ``lagThreshold`` (KEDA's default for Kafka triggers is
    10), else the annotation ``lagbench.io/lag-threshold``: a CPU policy has none of its own, and
    comparing it with a lag policy needs the same threshold for both.

    :raises WrongInput: the manifest is neither kind, or the threshold is no number.
    """
    spec = manifest.get("spec") or {}
    kind = manifest.get("kind")
    if kind == "ScaledObject":
        floor = int(spec.get("minReplicaCount") or 0)
        ceiling = int(spec.get("maxReplicaCount") or KEDA_DEFAULT_CEILING)
    elif kind == "HorizontalPodAutoscaler":
        stated = spec.get("minReplicas")
        floor, ceiling = int(1 if stated is None else stated), int(spec["maxReplicas"])
    else:
        raise WrongInput(
            where="policy",
            field="kind",
            value=kind,
            allowed="ScaledObject or HorizontalPodAutoscaler",
        )
    threshold, rule = _threshold(manifest, spec.get("triggers") or [])
    return PolicyLimits(floor, ceiling, threshold, rule)


def _threshold(
    manifest: Mapping[str, Any], triggers: list[Mapping[str, Any]]
) -> tuple[float | None, str]:
    for trigger in triggers:
        metadata = trigger.get("metadata") or {}
        if "lagThreshold" in metadata:
            value = _number(metadata["lagThreshold"], "lagThreshold")
            return value, f"lagThreshold {value:g} of the {trigger.get('type')} trigger"
        if trigger.get("type") in ("kafka", "apache-kafka"):
            value = KEDA_DEFAULT_LAG_THRESHOLD
            return value, f"KEDA's default lagThreshold {value:g}"
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    if LAG_THRESHOLD_ANNOTATION in annotations:
        value = _number(annotations[LAG_THRESHOLD_ANNOTATION], LAG_THRESHOLD_ANNOTATION)
        return value, f"annotation {LAG_THRESHOLD_ANNOTATION} {value:g}"
    return None, "the policy states no lag threshold"


def _number(text: Any, field: str) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError) as broken:
        raise WrongInput(
            where="policy", field=field, value=text, allowed="a number above 0"
        ) from broken
    if not value > 0:
        raise WrongInput(where="policy", field=field, value=text, allowed="a number above 0")
    return value
