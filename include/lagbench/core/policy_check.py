"""What a policy file must be, alone and together with a scenario, before anything is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lagbench.core.field_names import refuse_unknown_fields
from lagbench.core.hpa_spec import ResourceMetric, ScaleTarget, parse_hpa
from lagbench.core.run import CONSUMER_DEPLOYMENT
from lagbench.core.scaled_object import KafkaTrigger, parse_scaled_object
from lagbench.core.scenario import Scenario
from lagbench.errors import WrongInput

_KINDS = {
    "ScaledObject": "keda.sh/v1alpha1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
}
_MANIFEST_FIELDS = ("apiVersion", "kind", "metadata", "spec")
_HPA_FIELDS = ("scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "behavior")


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """What of a policy decides how far it scales; ``lag_threshold`` None: it does not see lag.

    ``is_capped_at_partitions``: KEDA itself holds the metric at one replica per partition.
    """

    min_replicas: int
    max_replicas: int
    max_field: str
    lag_threshold: int | None
    is_capped_at_partitions: bool
    starts_at_zero: bool


def check_policy(manifest: Mapping[str, Any], *, where: str) -> PolicyLimits:
    """Return the limits of a ScaledObject or HPA; ``WrongInput`` names what KEDA would refuse."""
    refuse_unknown_fields(manifest, _MANIFEST_FIELDS, where=where, field="policy")
    kind, version = manifest.get("kind"), manifest.get("apiVersion")
    if kind not in _KINDS:
        raise WrongInput(where=where, field="kind", value=kind, allowed=" or ".join(_KINDS))
    if version != _KINDS[kind]:
        raise WrongInput(where=where, field="apiVersion", value=version, allowed=_KINDS[kind])
    if kind == "ScaledObject":
        return _scaled_object(manifest, where)
    return _hpa(manifest, where)


def check_limits(scenario: Scenario, manifest: Mapping[str, Any], *, where: str) -> PolicyLimits:
    """Return the policy's limits; more replicas than partitions need ``allow_overscale``."""
    limits = check_policy(manifest, where=where)
    if limits.max_replicas > scenario.partitions and not scenario.allow_overscale:
        raise WrongInput(
            where=where,
            field=limits.max_field,
            value=limits.max_replicas,
            allowed=f"at most {scenario.partitions}, the partitions of scenario {scenario.name}: a "
            "pod beyond them gets none (allow_overscale: true in the scenario shows that on "
            "purpose)",
        )
    return limits


def _scaled_object(manifest: Mapping[str, Any], where: str) -> PolicyLimits:
    spec = parse_scaled_object(manifest, where=where)
    _check_target(spec.target, where)
    parameters = [trigger.parameters for trigger in spec.triggers]
    lag = [item for item in parameters if isinstance(item, KafkaTrigger)]
    is_capped = all(not item.allow_idle_consumers for item in lag)
    return PolicyLimits(
        min_replicas=max(spec.floor, 1),
        max_replicas=spec.max_replica_count,
        max_field="spec.maxReplicaCount",
        lag_threshold=min((item.lag_threshold for item in lag), default=None),
        is_capped_at_partitions=is_capped and len(lag) == len(parameters),
        starts_at_zero=spec.floor == 0,
    )


def _hpa(manifest: Mapping[str, Any], where: str) -> PolicyLimits:
    refuse_unknown_fields(manifest.get("spec"), _HPA_FIELDS, where=where, field="spec")
    spec = parse_hpa(manifest, where=where)
    _check_target(spec.target, where)
    for index, metric in enumerate(spec.metrics):
        if not isinstance(metric, ResourceMetric):
            raise WrongInput(
                where=where,
                field=f"spec.metrics[{index}].type",
                value=metric.kind,
                allowed="Resource (external metrics need a ScaledObject, which names their source)",
            )
    return PolicyLimits(
        min_replicas=spec.min_replicas,
        max_replicas=spec.max_replicas,
        max_field="spec.maxReplicas",
        lag_threshold=None,
        is_capped_at_partitions=False,
        starts_at_zero=False,
    )


def _check_target(target: ScaleTarget, where: str) -> None:
    """Refuse a policy that scales something else than the consumers."""
    if (target.kind, target.name) != ("Deployment", CONSUMER_DEPLOYMENT):
        raise WrongInput(
            where=where,
            field="spec.scaleTargetRef",
            value=f"{target.kind} {target.name}",
            allowed=f"Deployment {CONSUMER_DEPLOYMENT}, the workload under test",
        )
