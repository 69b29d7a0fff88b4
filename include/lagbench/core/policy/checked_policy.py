"""The one check of a policy: what it must be, alone and together with a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args

from lagbench.core.hpa.controller_flags import (
    SYNC_ANNOTATION,
    TOLERANCE_ANNOTATION,
    controller_flags,
)
from lagbench.core.hpa.hpa_object import HpaSpec, ScaleTarget, parse_hpa
from lagbench.core.keda.loop.keda_hpa import CONTROLLER, is_handed_over
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec
from lagbench.core.keda.triggers.trigger_types import TRIGGER_TYPES
from lagbench.core.object_meta import without_export
from lagbench.core.object_schema import json_value
from lagbench.core.policy.admission.api_server import Admission, admit, admit_hpa, stored_hpa
from lagbench.core.policy.admission.webhook import ClusterView
from lagbench.core.policy.applied import AppliedPolicy
from lagbench.core.policy.policy_limits import (
    KAFKA_TYPES,
    POLICY_VERSIONS,
    PolicyLimits,
    is_policy,
    policy_limits,
)
from lagbench.core.policy.review.policy_review import refusal_findings
from lagbench.core.policy.stream_windows import stream_windows
from lagbench.core.scenario.scenario import Scenario, Workload
from lagbench.errors import WrongInput


@dataclass(frozen=True)
class CheckedPolicy:
    """A policy that passed ``check_policy``, here or in the process that made the run folder.

    ``where`` names its file, ``environment`` the variables of its target as far as they are known
    (None: not at all; a run fills in what they give). ``spec`` and ``limits`` are read when first
    asked for, once.
    """

    manifest: Mapping[str, Any]
    where: str
    environment: Mapping[str, str] | None = field(default=None, repr=False)

    @classmethod
    def of_run(cls, manifest: Mapping[str, Any], *, where: str) -> CheckedPolicy:
        """Return the policy of a run folder without a new check: the task plan_cell checked it."""
        return cls(manifest, where)

    @cached_property
    def spec(self) -> ScaledObjectSpec | HpaSpec:
        """Return the parsed spec; the kind of the manifest decides its type."""
        if self.manifest.get("kind") == "ScaledObject":
            return parse_scaled_object(
                self.manifest, where=self.where, environment=self.environment
            )
        return parse_hpa(self.manifest, where=self.where)

    @cached_property
    def limits(self) -> PolicyLimits:
        """Return replica bounds and lag threshold."""
        return policy_limits(self.manifest, where=self.where)

    @cached_property
    def applied(self) -> AppliedPolicy:
        """Return the policy as the cluster should hold it."""
        return AppliedPolicy(self.manifest, self.spec)


def admitted_policy(
    manifest: Mapping[str, Any], *, where: str, environment: Mapping[str, str] | None = None
) -> CheckedPolicy:
    """Return a ScaledObject, or an HPA in v2, as it is stored, without what a cluster has added.

    :raises WrongInput: it is neither, KEDA or Kubernetes would reject it, or the bench cannot read
        one of its triggers.
    """
    kind = manifest.get("kind")
    if not is_policy(manifest):
        allowed = " or ".join(POLICY_VERSIONS)
        raise WrongInput(where=where, field="kind", value=kind, allowed=allowed)
    written = without_export(manifest)
    if kind == "HorizontalPodAutoscaler":
        _require_admission(written, admit_hpa(written), where)
        return CheckedPolicy(stored_hpa(written), where)
    checked = CheckedPolicy(json_value(written), where, environment)
    if manifest.get("apiVersion") == POLICY_VERSIONS["ScaledObject"]:
        _ = checked.spec  # its message has the value as it is written
    _require_admission(written, admit(written, ClusterView()), where)
    return checked


def check_policy(manifest: Mapping[str, Any], *, where: str) -> CheckedPolicy:
    """Return a ScaledObject or HPA that the bench can run, checked.

    A process calls this once for a policy and hands the result on.

    :raises WrongInput: KEDA or Kubernetes would reject it, or the bench does not support it.
    """
    _check_metrics(manifest, where)
    checked = admitted_policy(manifest, where=where)
    _check_target(checked.spec.target, where)
    _check_one_source(checked.manifest, where)
    stream_windows(checked.manifest, where=where)
    _ = checked.limits  # a threshold that is no number is wrong, too
    return checked


def refuse_broken_triggers(
    spec: ScaledObjectSpec, manifest: Mapping[str, Any], *, where: str
) -> None:
    """Reject a trigger whose source can never answer, as its type's record says.

    :raises WrongInput: names the parameter, and what to write instead.
    """
    for trigger in spec.triggers:
        metadata = manifest["spec"]["triggers"][trigger.index]["metadata"]
        for remark in TRIGGER_TYPES[trigger.type].remarks(trigger.parameters, metadata):
            if remark.level == "broken":
                raise WrongInput(
                    where=where,
                    field=f"spec.triggers[{trigger.index}].metadata.{remark.parameter}",
                    value=remark.value,
                    allowed=f"{remark.instead} ({remark.happens})",
                )


def _require_admission(manifest: Mapping[str, Any], answer: Admission, where: str) -> None:
    for finding in refusal_findings(manifest, answer)[:1]:
        instead = f" ({finding.instead})" if finding.instead else ""
        allowed = f"{finding.happens}{instead}"
        raise WrongInput(where=where, field=finding.field, value=finding.value, allowed=allowed)


def check_fit(scenario: Scenario, policy: CheckedPolicy) -> None:
    """Reject a policy that names the other kind of workload, or more replicas than partitions.

    More replicas are fine with ``allow_overscale``. A ScaledObject without a kind follows the
    scenario's workload; one with a kind, and each HPA, must name that workload.
    """
    limits = policy.limits
    kind = policy.manifest["spec"]["scaleTargetRef"].get("kind")
    if kind and kind != scenario.consumer.workload:
        raise WrongInput(
            where=policy.where,
            field="spec.scaleTargetRef.kind",
            value=kind,
            allowed=f"{scenario.consumer.workload}, the consumer.workload of scenario "
            f"{scenario.name} (or set consumer.workload: {kind} in the scenario)",
        )
    is_placed = stream_windows(policy.manifest, where=policy.where)
    if is_placed and scenario.hpa_sync_at_seconds is not None:
        raise WrongInput(
            where=f"scenario {scenario.name}",
            field="hpa_sync_at_seconds",
            value=scenario.hpa_sync_at_seconds,
            allowed="none with this policy: its cron windows fix the stream's start",
        )
    first = scenario.partitions
    for one in limits.of_triggers:
        if not one.counted(first):
            metadata = policy.manifest["spec"]["triggers"][one.index]["metadata"]
            raise WrongInput(
                where=policy.where,
                field=f"spec.triggers[{one.index}].metadata.partitionLimitation",
                value=metadata["partitionLimitation"],
                allowed=f"some of 0 to {first - 1}, the partitions of scenario {scenario.name}",
            )
    most = scenario.partition_plan.last
    if limits.ceiling_replicas > most and not scenario.allow_overscale:
        raise WrongInput(
            where=policy.where,
            field=limits.ceiling_field,
            value=limits.ceiling_replicas,
            allowed=f"at most {most}, the partitions of scenario {scenario.name}: a "
            "pod beyond them gets none (to show that, set allow_overscale: true in the scenario)",
        )


def _check_metrics(manifest: Mapping[str, Any], where: str) -> None:
    """Reject a metric whose source an HPA cannot name."""
    spec = manifest.get("spec")
    metrics = spec.get("metrics") if isinstance(spec, Mapping) else None
    for index, metric in enumerate(metrics if isinstance(metrics, list) else ()):
        kind = metric.get("type") if isinstance(metric, Mapping) else None
        if kind in ("External", "Object", "Pods"):
            raise WrongInput(
                where=where,
                field=f"spec.metrics[{index}].type",
                value=kind,
                allowed="Resource (external metrics need a ScaledObject, which names their source)",
            )


def _check_target(target: ScaleTarget, where: str) -> None:
    """Reject a policy that scales another kind of workload; a run sets the name."""
    kinds = get_args(Workload)
    if target.kind not in kinds:
        raise WrongInput(
            where=where,
            field="spec.scaleTargetRef.kind",
            value=target.kind,
            allowed=f"{' or '.join(kinds)}: a run puts its own consumers in the target's place",
        )


def _check_one_source(manifest: Mapping[str, Any], where: str) -> None:
    """Reject triggers of several topics or groups: a run would make one of them."""
    triggers = manifest["spec"].get("triggers") or ()
    lag = [one.get("metadata") or {} for one in triggers if one.get("type") in KAFKA_TYPES]
    for name, what in (("topic", "topics"), ("consumerGroup", "groups")):
        named = sorted({str(one[name]) for one in lag if one.get(name)})
        if len(named) > 1:
            raise WrongInput(
                where=where,
                field=f"spec.triggers[].metadata.{name}",
                value=", ".join(named),
                allowed=f"one of them: a run has one topic and one group, and would read the same "
                f"lag for all these {what}. Rehearse each with the triggers that it has",
            )


def require_own_controller(manifest: Mapping[str, Any], *, where: str, is_embedded: bool) -> None:
    """Reject flags of the HPA's controller on a cluster where Kubernetes' own one drives the HPA.

    That one has one sync and one tolerance for all HPAs, and does not read the annotations.

    :raises WrongInput: the policy sets a flag, and lagbench's controller does not drive it.
    """
    flags = controller_flags(manifest, where=where)
    if is_embedded or not flags.are_set:
        return
    if manifest.get("kind") == "ScaledObject" and is_handed_over(manifest):
        return
    name = TOLERANCE_ANNOTATION if flags.sync_seconds is None else SYNC_ANNOTATION
    raise WrongInput(
        where=where,
        field=f"metadata.annotations[{name}]",
        value=manifest["metadata"]["annotations"][name],
        allowed="no value on a cluster, where kube-controller-manager has one for all HPAs (or "
        f"hand the ScaledObject over to {CONTROLLER}, docs/kubernetes.md)",
    )


def require_kafka_log_in(manifest: Mapping[str, Any], *, where: str) -> None:
    """Reject a kafka trigger without TLS and SASL: KEDA does not read the Secret of the pods.

    A broker whose certificate KEDA's image trusts needs no more than ``tls`` of the metadata.

    :raises WrongInput: names the first such trigger.
    """
    for number, trigger in enumerate((manifest.get("spec") or {}).get("triggers") or []):
        metadata = trigger.get("metadata") or {}
        if trigger.get("type") not in KAFKA_TYPES or trigger.get("authenticationRef"):
            continue
        if "sasl" not in metadata and metadata.get("tls") != "enable":
            raise WrongInput(
                where=where,
                field=f"spec.triggers[{number}].authenticationRef",
                value="",
                allowed="a TriggerAuthentication with the login of KEDA: this Kafka is secured",
            )
