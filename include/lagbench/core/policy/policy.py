"""A policy as one value: read once, checked alone, together with a scenario and a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

from lagbench.core.hpa.controller_flags import (
    GATES,
    KUBERNETES_ANNOTATION,
    KUBERNETES_VERSIONS,
    SYNC_ANNOTATION,
    TOLERANCE_ANNOTATION,
    followed_version,
    has_gate,
)
from lagbench.core.hpa.hpa_object import HpaSpec, ScaleTarget, parse_hpa
from lagbench.core.keda.loop.keda_hpa import CONTROLLER, is_handed_over
from lagbench.core.keda.object.scaled_object import read_scaled_object
from lagbench.core.keda.object.scaled_object_rules import HPA_CONFIG
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
from lagbench.core.keda.triggers.trigger_parameters import NotSupported
from lagbench.core.keda.triggers.trigger_types import TRIGGER_TYPES
from lagbench.core.object_meta import without_export
from lagbench.core.object_schema import json_value, value_at
from lagbench.core.policy.admission.api_server import (
    Admission,
    admit,
    admit_hpa,
    stored_hpa,
    unreadable_metadata,
)
from lagbench.core.policy.admission.webhook import ClusterView
from lagbench.core.policy.applied import AppliedPolicy
from lagbench.core.policy.finding import refusal_findings
from lagbench.core.policy.policy_limits import (
    PolicyLimits,
    calls_lag_scaler,
    limits_of,
    unscaled_limits,
)
from lagbench.core.policy.stream_windows import WINDOWS_ANNOTATION, StreamWindow, stream_windows
from lagbench.core.scenario.scenario import Scenario, Workload
from lagbench.errors import WrongInput

POLICY_VERSIONS = {"ScaledObject": "keda.sh/v1alpha1", "HorizontalPodAutoscaler": "autoscaling/v2"}


def is_policy(document: Any) -> bool:
    """Return whether a document of a file is a ScaledObject or an HPA, of whichever version."""
    kind = document.get("kind") if isinstance(document, Mapping) else None
    return isinstance(kind, str) and kind in POLICY_VERSIONS


@dataclass(frozen=True)
class Policy:
    """A ScaledObject or an HPA, read once: as it is written, and what that means.

    ``where`` names its file. ``beyond``: what KEDA or Kubernetes would do, and the bench cannot.
    """

    manifest: Mapping[str, Any]
    where: str
    spec: ScaledObjectSpec | HpaSpec
    limits: PolicyLimits
    beyond: tuple[NotSupported, ...] = ()

    @classmethod
    def read(
        cls,
        manifest: Mapping[str, Any],
        *,
        where: str,
        environment: Mapping[str, str] | None = None,
        kubernetes: str | None = None,
    ) -> Policy:
        """Return the policy of a run folder or of a cluster, which was admitted there.

        :param environment: the variables of its target as far as they are known; None: not at all
            (a run fills in what they give).
        :param kubernetes: the cluster's version, as it is followed; None, or the policy is handed
            over to lagbench's controller: its own counts.
        :raises WrongInput: KEDA or Kubernetes would not scale by it.
        """
        if (unreadable := unreadable_metadata(manifest)) is not None:
            _require_admission(manifest, unreadable, where)
        if manifest.get("kind") == "HorizontalPodAutoscaler":
            kept, problems = playable_metrics(manifest, where)
            spec: ScaledObjectSpec | HpaSpec | None = parse_hpa(kept, where=where)
        else:
            spec, problems = read_scaled_object(manifest, where=where, environment=environment)
        beyond = tuple(problem for problem in problems if isinstance(problem, NotSupported))
        if spec is None or len(beyond) < len(problems):
            raise problems[0]
        if kubernetes is not None and is_handed_over(manifest):
            kubernetes = None
        limits = limits_of(spec, manifest, where=where, kubernetes=kubernetes)
        if beyond and isinstance(spec, HpaSpec):
            limits = replace(limits, most_replicas=None)  # it may follow any load
        return cls(manifest, where, spec, limits, beyond)

    @classmethod
    def load(
        cls,
        manifest: Mapping[str, Any],
        *,
        where: str,
        environment: Mapping[str, str] | None = None,
    ) -> Policy:
        """Return a policy as the API server would store it, without what a cluster has added.

        :raises WrongInput: it is none, KEDA or Kubernetes would reject it, or the bench cannot
            read one of its triggers.
        """
        if not is_policy(manifest):
            allowed = " or ".join(POLICY_VERSIONS)
            raise WrongInput(where=where, field="kind", value=manifest.get("kind"), allowed=allowed)
        written = without_export(manifest)
        if written["kind"] == "HorizontalPodAutoscaler":
            _require_admission(written, admit_hpa(written), where)
            policy = cls.read(stored_hpa(written, KUBERNETES_VERSIONS[-1]), where=where)
        else:
            written = json_value(written)
            answer = admit(written, ClusterView())
            if written.get("apiVersion") != POLICY_VERSIONS["ScaledObject"]:
                _require_admission(written, answer, where)
            # Read first: its message has the value as it is written.
            policy = cls.read(written, where=where, environment=environment)
            if not policy.beyond:
                _require_admission(written, answer, where)
        for problem in policy.beyond:
            raise problem
        return policy

    @classmethod
    def unknown(cls, where: str, replicas: int | None) -> Policy:
        """Return what stands for the policy of a group that none scales: it keeps its replicas."""
        limits = unscaled_limits(replicas)
        floor, target = limits.floor_replicas, ScaleTarget(api_version="", kind="", name="")
        spec = HpaSpec(target=target, min_replicas=floor, max_replicas=floor, metrics=())
        return cls({}, where, spec, limits)

    @cached_property
    def windows(self) -> tuple[StreamWindow, ...]:
        """Return the windows of its cron triggers in a run's stream."""
        return stream_windows(self.manifest, where=self.where)

    @cached_property
    def applied(self) -> AppliedPolicy:
        """Return the policy as the cluster should hold it."""
        return AppliedPolicy(self.manifest, self.spec)


def playable_metrics(
    manifest: Mapping[str, Any], where: str
) -> tuple[dict[str, Any], list[WrongInput]]:
    """Return an HPA with the metrics that the bench plays, and one problem for each other."""
    spec = manifest.get("spec") or {}
    kept, problems = [], list[WrongInput]()
    for index, metric in enumerate(spec.get("metrics") or ()):
        source = metric.get("resource") or metric.get("containerResource")
        name, field = source and source["name"], f"spec.metrics[{index}]"
        if source and name not in {"cpu", "memory"}:
            field, allowed = f"{field}.resource.name", "cpu or memory"
            problems.append(WrongInput(where=where, field=field, value=name, allowed=allowed))
        elif metric["type"] in {"Pods", "Object"}:
            field, kind = f"{field}.type", metric["type"]
            allowed = "External, Resource, ContainerResource"
            problems.append(NotSupported(where=where, field=field, value=kind, allowed=allowed))
        else:
            kept.append(metric)
    return {**manifest, "spec": {**spec, "metrics": kept}}, problems


def check_policy(manifest: Mapping[str, Any], *, where: str) -> Policy:
    """Return a ScaledObject or HPA that the bench can run, checked.

    A process calls this once for a policy and hands the result on.

    :raises WrongInput: KEDA or Kubernetes would reject it, or the bench does not support it.
    """
    _check_metrics(manifest, where)
    policy = Policy.load(manifest, where=where)
    _check_target(policy.spec.target, where)
    require_one_source(policy.manifest, where)
    _ = policy.windows
    return policy


def refuse_broken_triggers(policy: Policy) -> None:
    """Reject a trigger whose source can never answer, as its type's record says.

    :raises WrongInput: names the parameter, and what to write instead.
    """
    triggers = policy.spec.triggers if isinstance(policy.spec, ScaledObjectSpec) else ()
    for trigger in triggers:
        metadata = policy.manifest["spec"]["triggers"][trigger.index]["metadata"]
        for remark in TRIGGER_TYPES[trigger.type].remarks(trigger.parameters, metadata):
            if remark.level == "broken":
                raise WrongInput(
                    where=policy.where,
                    field=f"spec.triggers[{trigger.index}].metadata.{remark.parameter}",
                    value=remark.value,
                    allowed=f"{remark.instead} ({remark.happens})",
                )


def _require_admission(manifest: Mapping[str, Any], answer: Admission, where: str) -> None:
    for finding in refusal_findings(manifest, answer)[:1]:
        instead = f" ({finding.instead})" if finding.instead else ""
        allowed = f"{finding.happens}{instead}"
        raise WrongInput(where=where, field=finding.field, value=finding.value, allowed=allowed)


def check_fit(scenario: Scenario, policy: Policy) -> None:
    """Reject a policy that names the other kind of workload, or more replicas than partitions.

    More replicas are fine with ``allow_overscale``. A ScaledObject without a kind follows the
    scenario's workload; one with a kind, and each HPA, must name that workload.
    """
    for where, field, value, allowed in _misfits(scenario, policy):
        raise WrongInput(where=where, field=field, value=value, allowed=allowed)


def _misfits(scenario: Scenario, policy: Policy) -> Iterator[tuple[str, str, object, str]]:
    """Yield where, field, value and what is allowed."""
    limits, of_scenario = policy.limits, f"scenario {scenario.name}"
    kind = policy.manifest["spec"]["scaleTargetRef"].get("kind")
    if kind and kind != scenario.consumer.workload:
        allowed = f"{scenario.consumer.workload}, the consumer.workload of {of_scenario}"
        allowed += f" (or set consumer.workload: {kind} in the scenario)"
        yield policy.where, "spec.scaleTargetRef.kind", kind, allowed
    if policy.windows and scenario.hpa_sync_at_seconds is not None:
        allowed = "none with this policy: its cron windows fix the stream's start"
        yield of_scenario, "hpa_sync_at_seconds", scenario.hpa_sync_at_seconds, allowed
    first = scenario.partitions
    for one in limits.of_triggers:
        if not one.counted(first):
            metadata = policy.manifest["spec"]["triggers"][one.index]["metadata"]
            field = f"spec.triggers[{one.index}].metadata.partitionLimitation"
            allowed = f"some of 0 to {first - 1}, the partitions of {of_scenario}"
            yield policy.where, field, metadata["partitionLimitation"], allowed
    most = scenario.partition_plan.last
    if limits.ceiling_replicas > most and not scenario.allow_overscale:
        allowed = f"at most {most}, the partitions of {of_scenario}: a pod beyond them gets none "
        allowed += "(to show that, set allow_overscale: true in the scenario)"
        yield policy.where, limits.ceiling_field, limits.ceiling_replicas, allowed


def require_one_start(first: Policy, second: Policy) -> None:
    """Reject policies of two groups whose windows no start of one stream puts on whole minutes.

    :raises WrongInput: their edges are not whole minutes apart.
    """
    if not first.windows or not second.windows:
        return
    if (first.windows[0].from_seconds - second.windows[0].from_seconds) % 60:
        raise WrongInput(
            where=second.where,
            field=f"metadata.annotations[{WINDOWS_ANNOTATION}]",
            value=second.manifest["metadata"]["annotations"][WINDOWS_ANNOTATION],
            allowed="edges that are whole minutes from those of the first group's policy: both "
            "groups have one stream",
        )


def _check_metrics(manifest: Mapping[str, Any], where: str) -> None:
    """Reject a metric whose source an HPA cannot name."""
    spec = manifest.get("spec")
    metrics = spec.get("metrics") if isinstance(spec, Mapping) else None
    for index, metric in enumerate(metrics if isinstance(metrics, list) else ()):
        kind = metric.get("type") if isinstance(metric, Mapping) else None
        if kind in ("External", "Object", "Pods"):
            allowed = "Resource (external metrics need a ScaledObject, which names their source)"
            raise WrongInput(
                where=where, field=f"spec.metrics[{index}].type", value=kind, allowed=allowed
            )


def _check_target(target: ScaleTarget, where: str) -> None:
    """Reject a policy that scales another kind of workload; a run sets the name."""
    kinds = get_args(Workload)
    if target.kind not in kinds:
        allowed = f"{' or '.join(kinds)}: a run puts its own consumers in the target's place"
        raise WrongInput(
            where=where, field="spec.scaleTargetRef.kind", value=target.kind, allowed=allowed
        )


def require_one_source(manifest: Mapping[str, Any], where: str) -> None:
    """Reject triggers of several topics or groups: a run, or a swap, would make one of them."""
    triggers = manifest["spec"].get("triggers") or ()
    metadata = [(str(one.get("type")), one.get("metadata") or {}) for one in triggers]
    lag = [
        given
        for kind, given in metadata
        if kind == "kafka"
        or (calls_lag_scaler(kind, given) and given.get("source", "kafka") == "kafka")
    ]
    for name, what in (("topic", "topics"), ("consumerGroup", "groups")):
        named = sorted({str(one[name]) for one in lag if one.get(name)})
        if len(named) > 1:
            allowed = "one of them: a run or a swap has one topic and one group, and would read "
            allowed += f"the same lag for all these {what}. Take each with the triggers that it has"
            field = f"spec.triggers[].metadata.{name}"
            raise WrongInput(where=where, field=field, value=", ".join(named), allowed=allowed)


def require_own_controller(policy: Policy, *, where: str, is_embedded: bool) -> None:
    """Reject flags of the HPA's controller on a cluster where Kubernetes' own one drives the HPA.

    That one has one sync and one tolerance for all HPAs, and does not read the annotations.

    :raises WrongInput: the policy sets a flag, and lagbench's controller does not drive it.
    """
    manifest = policy.manifest
    annotations = manifest["metadata"].get("annotations") or {}
    name = next((n for n in (SYNC_ANNOTATION, TOLERANCE_ANNOTATION) if n in annotations), None)
    if is_embedded or name is None:
        return
    if isinstance(policy.spec, ScaledObjectSpec) and is_handed_over(manifest):
        return
    allowed = "no value on a cluster, where kube-controller-manager has one for all HPAs (or "
    allowed += f"hand the ScaledObject over to {CONTROLLER}, docs/kubernetes.md)"
    field = f"metadata.annotations[{name}]"
    raise WrongInput(where=where, field=field, value=annotations[name], allowed=allowed)


def require_kubernetes(policy: Policy, git_version: str | None = None) -> None:
    """Reject an annotation of another version than the cluster's, and what that version drops.

    :param git_version: of the cluster's API server, which decides there; None: the embedded bench.
    :raises WrongInput: names the field, and the version that it needs.
    """
    gate = "HPAConfigurableTolerance"
    manifest, version = policy.manifest, policy.limits.flags.version
    is_handed = isinstance(policy.spec, ScaledObjectSpec) and is_handed_over(manifest)
    here = f'followed here is {version} (the annotation {KUBERNETES_ANNOTATION}: "{GATES[gate]}")'
    if git_version is not None:
        named, cluster = policy.limits.flags.kubernetes, followed_version(git_version)
        has = f"the cluster has {git_version}"
        if named not in (None, cluster) and not is_handed:
            allowed = f"{cluster}, or no annotation: {has}"
            field = f"metadata.annotations[{KUBERNETES_ANNOTATION}]"
            raise WrongInput(where=policy.where, field=field, value=named, allowed=allowed)
        if not is_handed or not has_gate(gate, cluster):  # its API server stores the HPA
            version, here = cluster, has
    if has_gate(gate, version):
        return
    field = "spec.behavior"
    if isinstance(policy.spec, ScaledObjectSpec):
        field = f"{HPA_CONFIG}.behavior"
    for side in ("scaleUp", "scaleDown"):
        value = (value_at(manifest, f"{field}.{side}") or {}).get("tolerance")
        if value is not None:
            allowed = f"Kubernetes {GATES[gate]} or newer, {here}: an older one drops "
            allowed += "it, and the tolerance stays 10 %"
            raise WrongInput(
                where=policy.where, field=f"{field}.{side}.tolerance", value=value, allowed=allowed
            )


def require_kafka_log_in(policy: Policy, *, where: str) -> None:
    """Reject a kafka trigger without TLS and SASL: KEDA does not read the Secret of the pods.

    A broker whose certificate KEDA's image trusts needs no more than ``tls`` of the metadata.

    :raises WrongInput: names the first such trigger.
    """
    triggers = policy.spec.triggers if isinstance(policy.spec, ScaledObjectSpec) else ()
    for trigger in triggers:
        read = trigger.parameters
        if not isinstance(read, KafkaTrigger) or trigger.authentication_ref is not None:
            continue
        if read.security.sasl == "none" and not read.security.is_tls:
            allowed = "a TriggerAuthentication with the login of KEDA: this Kafka is secured"
            field = f"spec.triggers[{trigger.index}].authenticationRef"
            raise WrongInput(where=where, field=field, value="", allowed=allowed)
