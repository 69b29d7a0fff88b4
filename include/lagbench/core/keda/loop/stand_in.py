"""Compute the value that replaces a metric whose source has failed too often."""

from __future__ import annotations

from lagbench.core.keda.loop.scaler import MetricSpec, ScalerFailed, TargetView
from lagbench.core.keda.object.spec import Fallback, ScalingModifiers


def fallback_milli(
    fallback: Fallback,
    spec: MetricSpec,
    modifiers: ScalingModifiers | None,
    target: TargetView,
) -> int:
    """Return the value that makes the HPA compute the fallback's replicas.

    ``ScalerFailed`` where KEDA gives none: a Value target is shared out over the ready pods, and
    without one there is nothing to divide by.
    """
    replicas = float(_replicas(fallback, target.spec_replicas))
    target_type = spec.target_type if modifiers is None else modifiers.metric_type
    if target_type == "Value":
        if target.ready_pods == 0:
            raise ScalerFailed("error performing fallback")
        replicas /= target.ready_pods
    per_replica = spec.target_milli / 1000 if modifiers is None else float(modifiers.target)
    return int(per_replica * 1000 * replicas)


def _replicas(fallback: Fallback, current: int) -> int:
    if fallback.behavior == "currentReplicas":
        return current
    if fallback.behavior == "currentReplicasIfHigher":
        return max(current, fallback.replicas)
    if fallback.behavior == "currentReplicasIfLower":
        return min(current, fallback.replicas)
    return fallback.replicas
