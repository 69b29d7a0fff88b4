"""Find the effects of a source that is down: where KEDA 2.21 differs from its documentation."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lagbench.core.keda.object import Fallback, KafkaTrigger, Trigger, formula_of
from lagbench.core.keda.triggers import TRIGGER_TYPES, Outage
from lagbench.core.policy.review.finding import Finding, Subject, shown

_FALLBACK, _FORMULA = "spec.fallback", "spec.advanced.scalingModifiers.formula"


def failure_findings(subject: Subject) -> Iterator[Finding]:
    """Yield what happens when a broker, a server or one of several triggers fails."""
    spec = subject.spec
    polled = [item for item in spec.triggers if not item.is_resource]
    remote = [item for item in polled if _outage(item) != "none"]
    blocking = [item for item in remote if _outage(item) != "reading"]
    if spec.fallback is not None:
        yield from _fallback(subject, spec.fallback)
    if remote and len(spec.triggers) > 1:
        if blocking and len(polled) > 1:
            names = ", ".join(f"{item.type} (trigger {item.index})" for item in blocking)
            yield Finding(
                "warning",
                "failing-trigger-blocks",
                "spec.triggers",
                names,
                "while one of them is unreachable, KEDA serves no metric of this object, not "
                "even of the healthy ones: no scale-up either",
                "do not count on the other trigger as a safety net; alert on Ready=False",
            )
        elif len(polled) == 1 and not _engages(spec.valid_fallback, remote[0]):
            resources = ", ".join(item.type for item in spec.triggers if item.is_resource)
            yield Finding(
                "warning",
                "resource-holds-one-way",
                "spec.triggers",
                f"{remote[0].type}, {resources}",
                f"no safety net for a {remote[0].type} source that is down: the HPA then scales up "
                f"on {resources} alone and never down, and consumers that cannot read use little "
                "of it",
                "an alert on Ready=False; for a broker also a fallback with failureThreshold: 0",
            )
    if blocking and len(spec.triggers) > 1:
        yield Finding(
            "note",
            "source-down-at-creation",
            "spec.triggers",
            f"{len(spec.triggers)} triggers",
            "a source that is down when the policy is applied leaves it without any HPA; KEDA "
            "tries again after 5, 11, 21, 41, 83 and 165 s",
        )
    if spec.modifiers is not None:
        yield from _composite(subject, spec.modifiers.formula)


def _outage(trigger: Trigger) -> Outage:
    return TRIGGER_TYPES[trigger.type].outage


def _engages(fallback: Fallback | None, remote: Trigger) -> bool:
    """Return whether a fallback applies to a source that is down: see ``_fallback``."""
    if fallback is None or _outage(remote) == "metric names":
        return False
    return _outage(remote) == "reading" or fallback.failure_threshold == 0


def _fallback(subject: Subject, fallback: Fallback) -> Iterator[Finding]:
    spec = subject.spec
    outages = {_outage(item) for item in spec.triggers}
    if spec.valid_fallback is None:
        yield Finding(
            "warning",
            "fallback-void",
            _FALLBACK,
            shown(fallback.model_dump()),
            "KEDA ignores it: with scalingModifiers the target must be a whole number",
            "a whole number as advanced.scalingModifiers.target",
        )
        return
    if "scaler" in outages and fallback.failure_threshold > 0:
        yield Finding(
            "warning",
            "fallback-broker-down",
            f"{_FALLBACK}.failureThreshold",
            str(fallback.failure_threshold),
            "does not engage when the broker is down: the first failure discards the scaler, a new "
            "one cannot be built, and the count stays at 1. It engages if the topic was deleted",
            "failureThreshold: 0 also engages with the broker down, at the first failure",
        )
    if "metric names" in outages:
        yield Finding(
            "warning",
            "fallback-external",
            _FALLBACK,
            shown(fallback.model_dump()),
            "does not engage when the external scaler is down, whatever the threshold: without "
            "it even the metric's name is unknown. The replicas do not change",
            "two replicas of the external scaler, and an alert on Ready=False",
        )
    if fallback.replicas == 0:
        yield Finding(
            "warning",
            "fallback-to-zero",
            f"{_FALLBACK}.replicas",
            "0",
            "a failing source counts as no need: it may stop all pods",
            "replicas: 1 or more",
        )
    if fallback.replicas > spec.max_replica_count:
        yield Finding(
            "warning",
            "fallback-over-max",
            f"{_FALLBACK}.replicas",
            str(fallback.replicas),
            f"never more than maxReplicaCount ({spec.max_replica_count})",
            f"at most {spec.max_replica_count}",
        )


def _composite(subject: Subject, formula: str) -> Iterator[Finding]:
    happens = (
        "the targets of the triggers (lagThreshold) are used for the cap at the partitions alone"
    )
    if len(subject.spec.triggers) > 1:
        happens += "; a trigger that fails fails the whole formula"
    yield Finding("note", "composite-targets", _FORMULA, shown(formula), happens)
    yield from _composite_cap(subject, formula)
    # Lag triggers have values of 0 or more.
    if formula_of(subject.written).may_be_negative:
        yield Finding(
            "warning",
            "composite-negative",
            _FORMULA,
            shown(formula),
            "a result below 0 reaches the HPA as an overflow and requests maxReplicaCount "
            f"({subject.spec.max_replica_count}), while KEDA reports Active=False",
            f"max({formula}, 0)" if len(formula) <= 40 else "max(..., 0) around it",
        )


def _composite_cap(subject: Subject, formula: str) -> Iterator[Finding]:
    """Yield the most replicas that a formula requests which is the capped lag of one trigger."""
    spec, partitions, modifiers = subject.spec, subject.context.partitions, subject.spec.modifiers
    kafka = next(
        (t.parameters for t in spec.triggers if t.name and t.name == formula.strip()), None
    )
    if not isinstance(kafka, KafkaTrigger) or partitions is None or modifiers is None:
        return
    is_capped = not kafka.allow_idle_consumers or kafka.ensure_even_distribution_of_partitions
    if not is_capped or modifiers.metric_type == "Value":
        return
    most = max(1, math.ceil(partitions * kafka.target_milli / modifiers.target_milli))
    if most < min(partitions, spec.max_replica_count):
        yield Finding(
            "warning",
            "composite-capped",
            _FORMULA,
            shown(formula),
            f"KEDA caps the lag of this trigger at {partitions} partitions x lagThreshold "
            f"{kafka.lag_threshold:,}, which the formula's target of {modifiers.target} divides: "
            f"more than {most} replicas are never requested",
            f"lagThreshold: {math.ceil(modifiers.target_milli / 1000)}, or allowIdleConsumers",
        )
