"""A policy read as KEDA, the HPA and the API server would: answer first, then the remarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lagbench.core.hpa import ResourceMetric, parse_hpa
from lagbench.core.keda.object import NotSupported, Trigger, TriggerRefused, read_scaled_object
from lagbench.core.kubernetes import exported_fields, json_value, odd_finalizers, value_at
from lagbench.core.policy.admission import RefusedBy, admit, admit_hpa, stored_hpa, target_type
from lagbench.core.policy.limits import PolicyLimits, policy_limits
from lagbench.core.policy.loop_gain import loop_gain, standing_lag_seconds
from lagbench.core.policy.review.climb import ANY_NUMBER, climb
from lagbench.core.policy.review.cluster_facts import mapping, name_of
from lagbench.core.policy.review.failure_findings import failure_findings
from lagbench.core.policy.review.finding import Finding, KnownObjects, PolicyContext, Subject, shown
from lagbench.core.policy.review.lag_trigger_findings import (
    activation_findings,
    lag_trigger_findings,
    own_findings,
    unread_parameters,
    value_target_findings,
    variable_findings,
)
from lagbench.core.policy.review.other_trigger_findings import (
    annotation_findings,
    other_trigger_findings,
    resource_only_findings,
    window_findings,
)
from lagbench.core.policy.review.refusals import refusal_findings
from lagbench.core.policy.review.replica_findings import replica_findings
from lagbench.core.policy.review.target_findings import target_findings
from lagbench.core.policy.review.threshold_findings import (
    suggest_lag_threshold,
    threshold_findings,
)
from lagbench.core.policy.review.timing_findings import (
    behavior_findings,
    controller_flag_findings,
    sync_seconds_of,
    timing_findings,
)
from lagbench.errors import WrongInput

_TRIGGER_RULES: tuple[Callable[[Subject, Trigger], Iterator[Finding]], ...] = (
    lag_trigger_findings,
    activation_findings,
    value_target_findings,
    other_trigger_findings,
    own_findings,
    variable_findings,
)
_OTHER_METRICS = ("Pods", "Object")
_LEVELS = ("refused", "broken", "warning", "note")
_RULES: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    replica_findings,
    timing_findings,
    controller_flag_findings,
    lambda subject: behavior_findings(
        subject.spec.behavior,
        sync_seconds=sync_seconds_of(subject.manifest),
        pause_seconds=subject.context.pause_seconds,
    ),
    lambda subject: (
        found
        for trigger in subject.spec.triggers
        for rule in _TRIGGER_RULES
        for found in rule(subject, trigger)
    ),
    lambda subject: unread_parameters(subject.written["triggers"]),
    threshold_findings,
    failure_findings,
    resource_only_findings,
    target_findings,
    annotation_findings,
    lambda subject: window_findings(subject.manifest),
)


@dataclass(frozen=True, slots=True)
class PolicyReview:
    """The result of one policy's review.

    ``is_accepted``: the API server and KEDA's webhook store it. ``climb``: the replicas from the
    floor up under full lag, empty when that cannot be said. ``loop_gain`` and
    ``standing_lag_seconds``: of the lag trigger's loop; None: no trigger counts lag, or the rate of
    a pod is not known.
    """

    kind: str
    name: str
    is_accepted: bool
    findings: tuple[Finding, ...]
    refused_by: RefusedBy | None = None
    climb: tuple[int, ...] = ()
    suggested_lag_threshold: int | None = None
    loop_gain: float | None = None
    standing_lag_seconds: float | None = None

    @property
    def can_run(self) -> bool:
        """Return whether KEDA's operator can also do what it asks."""
        return self.is_accepted and all(item.level != "broken" for item in self.findings)

    @property
    def codes(self) -> tuple[str, ...]:
        """Return the codes of the findings, worst first."""
        return tuple(item.code for item in self.findings)


def review_policy(
    manifest: Mapping[str, Any],
    *,
    where: str,
    known_objects: KnownObjects | None = None,
    context: PolicyContext | None = None,
) -> PolicyReview:
    """Return the review of a ScaledObject or a HorizontalPodAutoscaler.

    :raises WrongInput: it is neither.
    """
    context, around = context or PolicyContext(), known_objects or KnownObjects()
    exported, kind = list(_exported(manifest, around)), manifest.get("kind")
    # A copy of a stored object is refused for it alone: the rest is checked.
    if isinstance(manifest.get("metadata"), Mapping):
        kept = {k: v for k, v in manifest["metadata"].items() if k != "resourceVersion"}
        manifest = {**manifest, "metadata": kept}
    if kind == "ScaledObject":
        review = _scaled_object(manifest, where, around, context)
    elif kind == "HorizontalPodAutoscaler":
        review = _hpa(manifest, where, around, context)
    else:
        allowed = "ScaledObject or HorizontalPodAutoscaler"
        raise WrongInput(where=where, field="kind", value=kind, allowed=allowed)
    suggested = None
    if context.pod_rate is not None and context.slo_seconds is not None:
        suggested = suggest_lag_threshold(context.pod_rate, context.slo_seconds)
    if review.can_run and context.pod_rate is not None:
        review = _with_loop(review, context.pod_rate, policy_limits(manifest))
    found = [*exported, *review.findings]
    ordered = sorted(found, key=lambda item: _LEVELS.index(item.level))
    review = replace(review, findings=tuple(ordered), suggested_lag_threshold=suggested)
    if review.is_accepted and any(item.level == "refused" for item in exported):
        return replace(review, is_accepted=False, refused_by="apiserver")
    return review


def _exported(manifest: Mapping[str, Any], around: KnownObjects) -> Iterator[Finding]:
    """Yield what a cluster has added to the object, which a policy does not have."""
    stored = around.cluster.scaled_objects
    is_update = any(name_of(item) == name_of(manifest) for item in stored)
    for field in exported_fields(manifest):
        creates = field == "metadata.resourceVersion" and not is_update
        yield Finding(
            "refused" if creates else "note",
            "copied-out",
            field,
            shown(value_at(manifest, field), field),
            "resourceVersion should not be set on objects to be created"
            if creates
            else "was read from a cluster; the API server writes it itself",
            "leave it out",
        )


def _with_loop(review: PolicyReview, pod_rate: float, limits: PolicyLimits) -> PolicyReview:
    return replace(
        review,
        loop_gain=loop_gain(pod_rate, limits),
        standing_lag_seconds=standing_lag_seconds(pod_rate, limits),
    )


def _scaled_object(
    manifest: Mapping[str, Any],
    where: str,
    around: KnownObjects,
    context: PolicyContext,
) -> PolicyReview:
    answer = admit(manifest, around.cluster)
    name = name_of(manifest)
    if not answer.is_accepted:
        return PolicyReview(
            "ScaledObject",
            name,
            is_accepted=False,
            findings=tuple(refusal_findings(manifest, answer)),
            refused_by=answer.refused_by,
        )
    manifest = json_value(manifest)  # as it is stored
    advice = [
        Finding(
            "warning",
            "finalizer-name",
            "metadata.finalizers",
            name,
            "another program may write a finalizer of this name, too",
            "DOMAIN/NAME",
        )
        for name in odd_finalizers(manifest["metadata"])
    ]
    spec, problems = read_scaled_object(manifest, where=where, environment=around.environment)
    if spec is None:
        unread = unread_parameters(manifest["spec"]["triggers"])
        findings = [*map(_problem, problems), *unread, *advice]
        return PolicyReview("ScaledObject", name, is_accepted=True, findings=tuple(findings))
    subject = Subject(manifest, spec, context, around)
    findings = [*(found for rule in _RULES for found in rule(subject)), *advice]
    limits, wish = policy_limits(manifest), ANY_NUMBER
    if context.partitions is not None and limits.is_capped_at_partitions:
        wish = limits.counted_partitions(context.partitions)
    return PolicyReview(
        "ScaledObject",
        name,
        is_accepted=True,
        findings=tuple(findings),
        climb=climb(manifest, spec, wish=wish) if limits.reads_load and wish else (),
    )


def _problem(problem: WrongInput) -> Finding:
    """Return what KEDA or the API server says after the object was stored."""
    field, value = problem.field, shown(problem.value, problem.field)
    if isinstance(problem, TriggerRefused):
        code = "hpa-refused" if problem.stage == "hpa" else "operator-refuses"
        happens = f"stored, but never ready: {problem.keda_message}"
        # Kafka's own name of the mechanism is not KEDA's.
        is_plain = field.endswith(".sasl") and value in {"plain", "PLAIN"}
        return Finding(
            "broken", code, field, value, happens, "sasl: plaintext" if is_plain else problem.hint
        )
    if isinstance(problem, NotSupported):
        happens = "KEDA accepts it, the embedded autoscaler does not support it"
        return Finding("warning", "not-rehearsed-here", field, value, happens, problem.allowed)
    return Finding(
        "broken",
        "hpa-refused",
        field,
        value,
        "stored, but never ready: the API server rejects the HPA that KEDA creates from it",
        problem.allowed,
    )


def _hpa(
    manifest: Mapping[str, Any], where: str, around: KnownObjects, context: PolicyContext
) -> PolicyReview:
    kind, name = "HorizontalPodAutoscaler", name_of(manifest)
    answer = admit_hpa(manifest)
    if not answer.is_accepted:
        findings = refusal_findings(manifest, answer)
        return PolicyReview(
            kind, name, is_accepted=False, findings=tuple(findings), refused_by="apiserver"
        )
    manifest = stored_hpa(manifest)
    spec = parse_hpa(_without_other_metrics(manifest), where=where)
    behavior, pause = manifest["spec"].get("behavior"), context.pause_seconds
    others = list(_metrics_not_rehearsed(manifest))
    findings = [
        *others,
        *behavior_findings(
            behavior,
            "spec.behavior",
            sync_seconds=sync_seconds_of(manifest),
            pause_seconds=pause,
        ),
    ]
    findings += [*window_findings(manifest), *_other_autoscalers(manifest, around)]
    if not others and all(isinstance(metric, ResourceMetric) for metric in spec.metrics):
        findings.append(
            Finding(
                "warning",
                "lag-not-seen",
                "spec.metrics",
                ", ".join(metric.name for metric in spec.metrics),
                "consumers that wait for a downstream write use little CPU, even with a long "
                "backlog: lag does not cause scaling",
                "a ScaledObject with a kafka trigger",
            )
        )
    return PolicyReview(kind, name, is_accepted=True, findings=tuple(findings))


def _other_autoscalers(manifest: Mapping[str, Any], around: KnownObjects) -> Iterator[Finding]:
    """Yield the autoscalers on the same target; a ScaledObject is an HPA of its own."""
    target, cluster = manifest["spec"]["scaleTargetRef"], around.cluster
    for other in (*cluster.scaled_objects, *cluster.hpas):
        theirs = mapping(mapping(other.get("spec")).get("scaleTargetRef"))
        is_same = (target_type(theirs), theirs.get("name")) == (target_type(target), target["name"])
        if is_same and (other.get("kind"), name_of(other)) != (manifest["kind"], name_of(manifest)):
            yield Finding(
                "broken",
                "other-autoscaler",
                "spec.scaleTargetRef",
                f"{target['kind']} {target['name']}",
                f"stored, but {other.get('kind')} {name_of(other)} scales it, too: two HPAs fight "
                "over the replicas",
                "one autoscaler for each workload: add the metric there as a trigger",
            )


def _metrics_not_rehearsed(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    for index, metric in enumerate(manifest["spec"].get("metrics") or ()):
        name, field = _unread_resource(metric), f"spec.metrics[{index}]"
        if name is not None:
            yield Finding(
                "broken",
                "resource-unknown",
                f"{field}.resource.name",
                shown(name),
                "stored, but the metrics API of pods has no such resource: nothing scales on it",
                "cpu or memory",
            )
        if metric.get("type") in _OTHER_METRICS:
            yield Finding(
                "warning",
                "not-rehearsed-here",
                f"{field}.type",
                metric["type"],
                "Kubernetes accepts it, the embedded autoscaler does not support it",
                "External, Resource, ContainerResource",
            )


def _unread_resource(metric: Mapping[str, Any]) -> str | None:
    """Return the name of a pods' resource that has no usage to read; None: it has, or is none."""
    source = metric.get("resource") or metric.get("containerResource")
    name = None if source is None else str(source["name"])
    return None if name in {"cpu", "memory"} else name


def _without_other_metrics(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = manifest["spec"]
    kept = [
        metric
        for metric in spec.get("metrics") or ()
        if metric["type"] not in _OTHER_METRICS and _unread_resource(metric) is None
    ]
    return {**manifest, "spec": {**spec, "metrics": kept}}
