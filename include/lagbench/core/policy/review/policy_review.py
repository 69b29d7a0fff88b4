"""A policy read as KEDA, the HPA and the API server would: answer first, then the remarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lagbench.core.hpa.controller_flags import GATES, version_of
from lagbench.core.hpa.hpa_object import HpaSpec
from lagbench.core.keda.object.scaled_object import read_scaled_object
from lagbench.core.keda.object.scaled_object_rules import SCALED_OBJECT
from lagbench.core.keda.triggers.trigger_parameters import NotSupported, TriggerRefused
from lagbench.core.object_meta import exported_fields, odd_finalizers
from lagbench.core.object_schema import json_value, known_fields, value_at
from lagbench.core.policy.admission.api_server import RefusedBy, admit, admit_hpa, stored_hpa
from lagbench.core.policy.admission.webhook import target_type
from lagbench.core.policy.finding import Finding, refusal_findings, shown
from lagbench.core.policy.policy import Policy, playable_metrics
from lagbench.core.policy.policy_limits import (
    PolicyLimits,
    limits_of,
    loop_gain,
    standing_lag_seconds,
)
from lagbench.core.policy.review.cluster_facts import mapping, name_of
from lagbench.core.policy.review.finding_texts import found
from lagbench.core.policy.review.object_rules import (
    annotation_findings,
    behavior_findings,
    failure_findings,
    replica_findings,
    target_findings,
    timing_findings,
    version_findings,
)
from lagbench.core.policy.review.subject import (
    ANY_NUMBER,
    KnownObjects,
    PolicyContext,
    Subject,
    climb,
)
from lagbench.core.policy.review.trigger_rules import (
    resource_only_findings,
    suggest_lag_threshold,
    threshold_findings,
    trigger_findings,
    unread_parameters,
    window_findings,
)
from lagbench.errors import WrongInput

_LEVELS = ("refused", "broken", "warning", "note")


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
    limits: PolicyLimits | None = None
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
    findings = [*exported, *review.findings]
    is_refused = any(item.level == "refused" for item in exported)
    review = replace(
        review,
        findings=tuple(sorted(findings, key=lambda item: _LEVELS.index(item.level))),
        is_accepted=review.is_accepted and not is_refused,
        refused_by=review.refused_by or ("apiserver" if is_refused else None),
    )
    rate, slo, limits = context.pod_rate, context.slo_seconds, review.limits
    if rate is None:
        return review
    is_known = limits is not None and all(item.level != "broken" for item in findings)
    return replace(
        review,
        suggested_lag_threshold=None if slo is None else suggest_lag_threshold(rate, slo),
        loop_gain=loop_gain(rate, limits) if limits is not None and is_known else None,
        standing_lag_seconds=standing_lag_seconds(rate, limits) if limits and is_known else None,
    )


def _exported(manifest: Mapping[str, Any], around: KnownObjects) -> Iterator[Finding]:
    """Yield what a cluster has added to the object, which a policy does not have."""
    is_hpa = manifest.get("kind") == "HorizontalPodAutoscaler"
    stored = around.cluster.hpas if is_hpa else around.cluster.scaled_objects
    is_update = name_of(manifest) in map(name_of, stored)
    for field in exported_fields(manifest):
        key = "copied-out"
        if field == "metadata.resourceVersion" and not is_update:
            key += "/version" if around.is_cluster_read else "/unknown-version"
        yield found(key, field, shown(value_at(manifest, field), field))


def _scaled_object(
    manifest: Mapping[str, Any], where: str, around: KnownObjects, context: PolicyContext
) -> PolicyReview:
    kind, name, answer = "ScaledObject", name_of(manifest), admit(manifest, around.cluster)
    if not answer.is_accepted:
        refusals = refusal_findings(manifest, answer)
        named = {one.field for one in refusals}
        more = (one for one in _of_triggers(manifest, where) if one.field not in named)
        every = (*refusals, *more)
        return PolicyReview(kind, name, False, every, refused_by=answer.refused_by)
    manifest = json_value(manifest)  # as it is stored
    odd = odd_finalizers(manifest["metadata"])
    advice = [found("finalizer-name", "metadata.finalizers", name) for name in odd]
    spec, problems = read_scaled_object(manifest, where=where, environment=around.environment)
    version = around.version_for(manifest)
    limits = None
    if spec is not None:
        limits = limits_of(spec, manifest, where=where, kubernetes=version)
    if spec is None or limits is None or problems:
        unread = unread_parameters(manifest["spec"]["triggers"])
        findings = (*map(_problem, problems), *unread, *advice)
        return PolicyReview(kind, name, True, findings, limits=limits)
    policy = Policy(manifest, where, spec, limits)
    subject = Subject(policy, spec, context, around)
    every = (
        *unread_parameters(subject.written["triggers"]),
        *replica_findings(subject),
        *timing_findings(subject),
        *behavior_findings(spec.behavior, policy.limits.flags, context.pause_seconds),
        *(one for trigger in spec.triggers for one in trigger_findings(subject, trigger)),
        *threshold_findings(subject),
        *failure_findings(subject),
        *resource_only_findings(subject),
        *target_findings(subject),
        *annotation_findings(subject),
        *version_findings(manifest, around),
        *window_findings(policy),
        *advice,
    )
    wish = ANY_NUMBER
    if context.partitions is not None and limits.is_capped_at_partitions:
        wish = limits.counted_partitions(context.partitions)
    way = climb(subject, wish=wish) if limits.reads_load and wish else ()
    return PolicyReview(kind, name, True, every, climb=way, limits=limits)


def _of_triggers(manifest: Mapping[str, Any], where: str) -> Iterator[Finding]:
    """Yield what is wrong with triggers of a refused object, as if each parameter were a text."""
    kept = {**known_fields(json_value(manifest), SCALED_OBJECT), "metadata": {}}
    triggers = mapping(kept.get("spec")).get("triggers")
    for one in triggers if isinstance(triggers, list) else ():
        if isinstance(one, dict) and isinstance(given := one.get("metadata"), dict):
            one["metadata"] = {key: str(value) for key, value in given.items()}
    _, problems = read_scaled_object(kept, where=where)
    if all(isinstance(one, TriggerRefused | NotSupported) for one in problems):  # it has the shape
        yield from (_problem(one) for one in problems if ".metadata." in one.field)
        yield from unread_parameters(kept["spec"]["triggers"])


def _problem(problem: WrongInput) -> Finding:
    """Return what KEDA or the API server says after the object was stored."""
    field, value = problem.field, shown(problem.value, problem.field)
    if isinstance(problem, TriggerRefused):
        # Kafka's own name of the mechanism is not KEDA's.
        is_plain = field.endswith(".sasl") and value in {"plain", "PLAIN"}
        hint = "sasl: plaintext" if is_plain else problem.hint
        key = "hpa-refused" if problem.stage == "hpa" else "operator-refuses"
        return found(key, field, value, said=problem.keda_message, hint=hint)
    if isinstance(problem, NotSupported):
        return found("not-rehearsed-here", field, value, who="KEDA", allowed=problem.allowed)
    said = "the API server rejects the HPA that KEDA creates from it"
    return found("hpa-refused", field, value, said=said, hint=problem.allowed)


def _hpa(
    manifest: Mapping[str, Any], where: str, around: KnownObjects, context: PolicyContext
) -> PolicyReview:
    version = around.kubernetes or version_of(manifest)
    kind, name, answer = "HorizontalPodAutoscaler", name_of(manifest), admit_hpa(manifest, version)
    if not answer.is_accepted:
        refusals = refusal_findings(manifest, answer)
        return PolicyReview(kind, name, False, refusals, refused_by="apiserver")
    played, problems = playable_metrics(stored_hpa(manifest, version), where)
    policy = Policy.read(played, where=where, kubernetes=version)
    others, limits = list(map(_hpa_problem, problems)), policy.limits
    behavior = json_value(manifest)["spec"].get("behavior")
    findings = [
        *others,
        *version_findings(manifest, around),
        *behavior_findings(behavior, limits.flags, context.pause_seconds, "spec.behavior"),
        *window_findings(policy),
        *_other_autoscalers(manifest, around),
    ]
    spec = policy.spec
    if isinstance(spec, HpaSpec) and spec.min_replicas == 0:
        findings.append(
            found("hpa-to-zero", "spec.minReplicas", "0", since=GATES["HPAScaleToZero"])
        )
    if isinstance(spec, HpaSpec) and not others and not limits.reads_load:
        names = ", ".join(metric.name for metric in spec.metrics)
        findings.append(found("lag-not-seen/hpa", "spec.metrics", names))
    return PolicyReview(kind, name, True, tuple(findings), limits=limits)


def _hpa_problem(problem: WrongInput) -> Finding:
    if not isinstance(problem, NotSupported):
        return found("resource-unknown", problem.field, shown(problem.value))
    facts = {"who": "Kubernetes", "allowed": problem.allowed}
    return found("not-rehearsed-here", problem.field, shown(problem.value), **facts)


def _other_autoscalers(manifest: Mapping[str, Any], around: KnownObjects) -> Iterator[Finding]:
    """Yield the autoscalers on the same target; a ScaledObject is an HPA of its own."""
    target, cluster = manifest["spec"]["scaleTargetRef"], around.cluster
    for other in (*cluster.scaled_objects, *cluster.hpas):
        theirs = mapping(mapping(other.get("spec")).get("scaleTargetRef"))
        is_same = (target_type(theirs), theirs.get("name")) == (target_type(target), target["name"])
        if is_same and (other.get("kind"), name_of(other)) != (manifest["kind"], name_of(manifest)):
            named = f"{other.get('kind')} {name_of(other)}"
            value = f"{target['kind']} {target['name']}"
            yield found("other-autoscaler", "spec.scaleTargetRef", value, other=named)
