"""What a policy file must be, alone and together with a scenario, before anything is started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.core.hpa import ResourceMetric, ScaleTarget, parse_hpa
from lagbench.core.keda.object import parse_scaled_object
from lagbench.core.policy.admission import ClusterView, admit, refuse_unknown_hpa_fields
from lagbench.core.policy.kinds import POLICY_VERSIONS
from lagbench.core.policy.limits import PolicyLimits, policy_limits
from lagbench.core.policy.review import refusal_findings
from lagbench.core.scenario import CONSUMER_DEPLOYMENT, Scenario
from lagbench.errors import WrongInput


def check_policy(manifest: Mapping[str, Any], *, where: str) -> PolicyLimits:
    """Return the limits of a ScaledObject or HPA that the bench can run.

    :raises WrongInput: KEDA or Kubernetes would refuse it, or the bench cannot do what it asks.
    """
    kind, version = manifest.get("kind"), manifest.get("apiVersion")
    if kind not in POLICY_VERSIONS:
        allowed = " or ".join(POLICY_VERSIONS)
        raise WrongInput(where=where, field="kind", value=kind, allowed=allowed)
    if version != POLICY_VERSIONS[kind]:
        allowed = POLICY_VERSIONS[kind]
        raise WrongInput(where=where, field="apiVersion", value=version, allowed=allowed)
    if kind == "ScaledObject":
        target = parse_scaled_object(manifest, where=where).target
        _check_admission(manifest, where)
    else:
        target = _checked_hpa(manifest, where)
    _check_target(target, where)
    return policy_limits(manifest)


def check_limits(scenario: Scenario, manifest: Mapping[str, Any], *, where: str) -> PolicyLimits:
    """Return the policy's limits; more replicas than partitions need ``allow_overscale``."""
    limits = check_policy(manifest, where=where)
    if limits.ceiling_replicas > scenario.partitions and not scenario.allow_overscale:
        raise WrongInput(
            where=where,
            field=limits.ceiling_field,
            value=limits.ceiling_replicas,
            allowed=f"at most {scenario.partitions}, the partitions of scenario {scenario.name}: a "
            "pod beyond them gets none (allow_overscale: true in the scenario shows that on "
            "purpose)",
        )
    return limits


def _check_admission(manifest: Mapping[str, Any], where: str) -> None:
    """Refuse what only the API server's schema or KEDA's webhook refuses."""
    answer = admit(manifest, ClusterView())
    for finding in refusal_findings(manifest, answer)[:1]:
        instead = f" ({finding.instead})" if finding.instead else ""
        allowed = f"{finding.happens}{instead}"
        raise WrongInput(where=where, field=finding.field, value=finding.value, allowed=allowed)


def _checked_hpa(manifest: Mapping[str, Any], where: str) -> ScaleTarget:
    refuse_unknown_hpa_fields(manifest, where=where)
    spec = parse_hpa(manifest, where=where)
    for index, metric in enumerate(spec.metrics):
        if not isinstance(metric, ResourceMetric):
            raise WrongInput(
                where=where,
                field=f"spec.metrics[{index}].type",
                value=metric.kind,
                allowed="Resource (external metrics need a ScaledObject, which names their source)",
            )
    return spec.target


def _check_target(target: ScaleTarget, where: str) -> None:
    """Refuse a policy that scales something else than the consumers."""
    if (target.kind, target.name) != ("Deployment", CONSUMER_DEPLOYMENT):
        raise WrongInput(
            where=where,
            field="spec.scaleTargetRef",
            value=f"{target.kind} {target.name}",
            allowed=f"Deployment {CONSUMER_DEPLOYMENT}, the workload under test",
        )
