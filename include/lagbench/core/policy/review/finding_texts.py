"""The text of each finding: its level, what happens, and the remedy.

A key is a finding's code; where a code has several texts, more stands behind a slash.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from lagbench.core.policy.finding import Finding, Level


class _Text(NamedTuple):
    level: Level
    happens: str
    instead: str = ""


_warning, _note = partial(_Text, "warning"), partial(_Text, "note")
_broken = partial(_Text, "broken")
_NO_LAG = (
    "consumers that wait for a downstream write use little CPU, even with a long backlog: lag does "
    "not cause scaling"
)
_COOLDOWN = _warning(
    "decides nothing with minReplicaCount {floor}: it applies to the step to 0 (or "
    "idleReplicaCount)",
    "leave it out; the speed of scale-down is set by behavior.scaleDown",
)
_TEXTS = {
    # Replicas
    "min-absent": _warning(
        "counts as 0: KEDA stops all pods when no trigger is active",
        "minReplicaCount: 1 or more, or 0 if that is intended",
    ),
    "max-absent": _warning("counts as 100 replicas", "maxReplicaCount: the number of partitions"),
    "idle-flaps": _warning(
        "the HPA sets {floor} at its next sync, because less is below its minimum, and KEDA sets "
        "{value} at its next poll: the pods start and stop for ever",
        "idleReplicaCount: 0, at which the HPA does not act",
    ),
    "limitation-keeps-none": _broken(
        "keeps none of the {partitions} partitions: every poll fails",
        "partitions from 0 to {last}, such as 0-{last}",
    ),
    "even-counts": _note(
        "with {partitions} partitions only {counts} replicas are requested; limits in behavior may "
        "stop between them"
    ),
    "max-over-partitions": _warning(
        "up to {idle} replicas get none of the {partitions} partitions and add no throughput; each "
        "costs a rebalance when it joins and when it leaves. {names} is not capped at the "
        "partitions",
        "maxReplicaCount: {partitions}{more}",
    ),
    "max-over-partitions/capped": _warning(
        "the metric is capped at the partitions: more than {most} are never requested",
        "maxReplicaCount: {partitions}",
    ),
    "max-over-partitions/leaks": _warning(
        "the metric is capped at the partitions: more than {most} are never requested, and the "
        "{most}th, which gets no partition, is: KEDA's cap divides whole numbers and the HPA "
        "rounds the rest up",
        "maxReplicaCount: {partitions}",
    ),
    "max-over-partitions/hours": _warning(
        "more than the {most} of the hours are never requested", "maxReplicaCount: {partitions}"
    ),
    "cron-over-partitions": _warning(
        "in its hours {asked} pods run, and {idle} of them get none of the {partitions} "
        "partitions: they are idle",
        "at most {partitions}",
    ),
    "cap-sticks": _warning(
        "{counts} of {partitions} stay there under any lag: {partitions} wanted is within the "
        "HPA's tolerance of {tolerance:g} % from {least} on; this policy climbs {way}, so {top} is "
        "never reached",
        "steps that jump over {counts} (behavior.scaleUp.policies), {last} pods that suffice, or "
        "on Kubernetes {since} or newer behavior.scaleUp.tolerance: {least_tolerance:g}",
    ),
    "cap-sticks/jumps": _note(
        "{counts} of {partitions} stay there under any lag: {partitions} wanted is within the "
        "HPA's tolerance of {tolerance:g} % from {least} on; under full lag this policy climbs "
        "{way} and jumps over them"
    ),
    # Clocks
    "own-controller-only": _note(
        "only lagbench's controller reads it: kube-controller-manager has one value for all HPAs, "
        "and a managed cluster does not let you set it"
    ),
    "kubernetes-version": _note(
        "predictions and the embedded bench follow this version; a cluster has its own"
    ),
    "kubernetes-differs": _warning(
        "the cluster is of {here}: this review follows it, and a run there is refused"
    ),
    "polling-interval-ignored": _warning(
        "decides nothing with minReplicaCount {floor}: the HPA reads the lag itself, every "
        "{sync:g} s; KEDA's own loop only refreshes the status",
        "leave it out",
    ),
    "polling-interval-from-zero": _note(
        "is the clock from 0 (or idle) only; from 1 on it is the HPA's {sync:g} s"
    ),
    "cooldown-ignored": _COOLDOWN,
    "initial-cooldown-ignored": _COOLDOWN,
    "cached-metrics": _note("the HPA sees a value up to {interval} s old"),
    "no-behavior": _note(
        "the HPA's older limits apply: at most max(2 x current, 4) replicas per sync, and down in "
        "one step {seconds} s after the last sync with a higher proposal"
    ),
    "tolerance-ignored": _warning(
        "dropped by an API server before Kubernetes {since} (followed here: {here}), whose gate "
        "HPAConfigurableTolerance is off by default: the tolerance stays 10 %",
        "a cluster of Kubernetes {since} or newer; in a rehearsal the annotation "
        "lagbench.io/kubernetes",
    ),
    "tolerance-of-object": _note(
        "in force from Kubernetes {since} on (followed here: {here}); an older API server drops it"
    ),
    "hpa-to-zero": _note(
        "the HPA itself goes to 0 and comes back, from Kubernetes {since} on; an older API server "
        "rejects it"
    ),
    "policies-empty": _warning(
        "counts as not set: the defaults (100 % per 15 s, up also 4 pods) come back", "leave it out"
    ),
    "up-disabled": _warning("the HPA never scales up"),
    "down-disabled": _warning("the HPA never scales down"),
    "up-window-waits": _note(
        "the HPA uses the lowest proposal of the last {seconds} s: it reacts {seconds} s later, "
        "and a shorter spike does not scale at all"
    ),
    "down-window-under-pause": _warning(
        "bursts are up to {pause:g} s apart: once a backlog is drained, pods leave after {seconds} "
        "s and start again for the next burst, each time with a rebalance",
        "more than {pause:g}, unless the pods are meant to leave in the pause",
    ),
    "down-window-short": _warning(
        "the highest proposal of {seconds} s, at most {syncs} syncs: pods leave in the pause "
        "between two bursts and start again for the next",
        "longer than the pause between bursts; 300 is the default",
    ),
    "percent-is-added": _note(
        "{percent} % are added to the current number: up to {times:g} times the replicas{named} "
        "per {seconds} s",
        "100 doubles",
    ),
    # Lag triggers
    "threshold-default": _warning(
        "counts as 10 messages per replica: any backlog requests all replicas",
        "lagThreshold: rate x SLO x 0.75",
    ),
    "value-target": _warning(
        "the target is for the group, not per replica: at twice the target the ready pods double "
        "at every sync until maxReplicaCount",
        "metricType: AverageValue, or leave it out",
    ),
    "login-in-metadata": _warning(
        "not read here, and visible to everyone with read access",
        "a TriggerAuthentication and its Secret, by authenticationRef{has}",
    ),
    "parameter-ignored": _warning("not a parameter of the {kind}: {who} ignores it", "{meant}"),
    "variable-not-known": _note(
        "the value of {variable} is not known from this file: KEDA reads it from the target's "
        "container. A run replaces brokers, topic and group",
        "the target, and its ConfigMap or Secret, beside it, in this file or another",
    ),
    "idle-consumers-ignored": _warning(
        "the even distribution restores the cap at the partitions", "one of the two"
    ),
    "even-never-zero": _note(
        "the metric never falls below lagThreshold ({threshold:,}), even at zero lag; activation "
        "still uses the true lag"
    ),
    "persistent-lag-flaps": _warning(
        "a partition whose offset has not moved between two reads counts as 0, and both KEDA and "
        "the HPA read: where commits are further apart than 15 s the proposal flaps between all "
        "and nothing",
        "commit at least every 5 s, and a scaleDown window of 60 s or more",
    ),
    "limitation-ignored": _warning(
        "dropped without a topic: all partitions of all topics of the group count", "a topic"
    ),
    "all-topics": _warning(
        "KEDA sums the lag of every topic for which the group has committed offsets: a backlog of "
        "another topic scales these pods, and a topic without a commit counts as nothing",
        "topic: the one that the target reads",
    ),
    "latest-hides-backlog": _warning(
        "a partition without a committed offset counts as 1 message, whatever its backlog: the lag "
        "of a new group is underestimated{more}",
        "offsetResetPolicy: earliest, if the consumers begin there",
    ),
    "activation-ignored": _warning(
        "applies only between 0 (or idle) and 1; no effect with minReplicaCount {floor}",
        "leave it out",
    ),
    "activation-over-threshold": _warning(
        "{least:,.10g} to {most:,.10g} {what}, more than one replica may hold, wait for ever at 0 "
        "pods{others}",
        "at most {threshold:.10g}, the {target}",
    ),
    "threshold-breaks-slo": _warning(
        "a pod of {rate:,.0f}/s needs {takes:,.1f} s for it: the policy tolerates more than the "
        "SLO of {slo:g} s",
        "{advice}",
    ),
    "threshold-suggestion": _note(
        "{takes:,.2g} s of one pod's work, {side} the {share:.0%} of the promise ({slo:g} s) that "
        "it may take",
        "{advice}",
    ),
    "scales-on-noise": _warning(
        "{at_rest:,.0f} messages {why} at rest, and the floor of {floor} may hold {held:,.0f}: it "
        "scales without a spike",
        "lagThreshold above {least:,}",
    ),
    # Other triggers
    "lag-not-seen": _warning(_NO_LAG, "a kafka trigger"),
    "lag-not-seen/hours": _warning(
        "lag does not cause scaling: at most {most} replicas run", "a kafka trigger"
    ),
    "lag-not-seen/hpa": _warning(_NO_LAG, "a ScaledObject with a kafka trigger"),
    "timezone-unknown": _broken(
        "unknown time zone; KEDA detects it only when it polls",
        "a name of the IANA database, such as Europe/Berlin or Etc/UTC",
    ),
    "cron-under-floor": _warning(
        "its hours have no effect: minReplicaCount ({floor}) pods always run", "more than {floor}"
    ),
    "cron-over-max": _warning("never more than maxReplicaCount ({ceiling})", "at most {ceiling}"),
    "cron-by-clock": _note(
        "in a rehearsal, too, its hours follow the wall clock: outside of them a run never opens "
        "it, and a plan takes midnight (--start)",
        "the annotation {annotation}: 0-120 opens it from 0 to 120 s of the stream",
    ),
    "scaler-address": _broken(
        "gRPC dials host:port; a URL is a name that cannot be resolved", "{dialled}"
    ),
    "scaler-address/port": _warning("without a port gRPC dials 443", "{dialled}"),
    "lag-scaler-refuses": _broken(
        "the lag scaler answers INVALID_ARGUMENT: KEDA makes no HPA", "{allowed}"
    ),
    "sustain-waits": _note(
        "nothing scales before lag has persisted for {value} s; then the HPA's sync (15 s) and "
        "the pods' start follow"
    ),
    "sync-on-step": _note(
        "from Kubernetes {since} on the HPA syncs when a sample (every {sampling:g} s) shows a "
        "step of the metric, up to once in {distance:g} s; its other syncs stay 15 s apart"
    ),
    "sync-on-step/old": _warning(
        "changes the target with each step, and nothing else: Kubernetes syncs a changed HPA at "
        "once from {since} on",
        "a cluster of Kubernetes {since}; in a rehearsal the annotation {annotation}",
    ),
    "sync-on-step/type": _warning(
        "has no effect: KEDA takes changed targets from triggers of type external-push only",
        "type: external-push",
    ),
    "small-backlog-sleeps": _warning(
        "with no pod running, a backlog below {value} {unit} {place} starts none and is "
        "never read: only lag at that level{stands} counts as activity",
        "minReplicaCount: 1, or a kafka trigger beside it that starts the first pod",
    ),
    "cron-windows": _broken(
        "no run and no plan starts with it; KEDA does not read it", "{allowed}"
    ),
    # Annotations
    "annotation-not-boolean": _warning(
        "is not a Go boolean and counts as true: {effect}", '"true" or "false"'
    ),
    "handed-over": _note("KEDA does not act; only a running {controller} scales"),
    "scaling-held": _warning("{effect}", "remove it to scale"),
    "two-controllers": _broken(
        "KEDA also scales the target, so the named controller exits", '{paused}: "true" beside it'
    ),
    "paused-replicas": _broken("KEDA deletes the HPA, then fails: {problem}", "a whole number"),
    # Sources that are down
    "failing-trigger-blocks": _warning(
        "while one of them is unreachable, KEDA serves no metric of this object, not even of the "
        "healthy ones: no scale-up either",
        "do not count on the other trigger as a safety net; alert on Ready=False",
    ),
    "resource-holds-one-way": _warning(
        "no safety net for a {kind} source that is down: the HPA then scales up on {resources} "
        "alone and never down, and consumers that cannot read use little of it",
        "an alert on Ready=False; for a broker also a fallback with failureThreshold: 0",
    ),
    "source-down-at-creation": _note(
        "a source that is down when the policy is applied leaves it without any HPA; KEDA tries "
        "again after 5, 11, 21, 41, 83 and 165 s"
    ),
    "fallback-void": _warning(
        "KEDA ignores it: with scalingModifiers the target must be a whole number",
        "a whole number as advanced.scalingModifiers.target",
    ),
    "fallback-broker-down": _warning(
        "does not engage when the broker is down: the first failure discards the scaler, a new one "
        "cannot be built, and the count stays at 1. It engages if the topic was deleted",
        "failureThreshold: 0 also engages with the broker down, at the first failure",
    ),
    "fallback-external": _warning(
        "does not engage when the external scaler is down: without it even the metric's name is "
        "unknown, and no failure counts. The replicas do not change",
        "two replicas of the external scaler, and an alert on Ready=False. With failureThreshold: "
        "0 it engages if the trigger is external-push and its server streams the metric "
        "(KEDA 2.21)",
    ),
    "fallback-to-zero": _warning(
        "a failing source counts as no need: it may stop all pods", "replicas: 1 or more"
    ),
    "fallback-over-max": _warning(
        "never more than maxReplicaCount ({ceiling})", "at most {ceiling}"
    ),
    # Formulas
    "composite-targets": _note(
        "the targets of the triggers (lagThreshold) are used for the cap at the partitions "
        "alone{more}"
    ),
    "composite-negative": _warning(
        "a result below 0 reaches the HPA as an overflow and requests maxReplicaCount ({ceiling}), "
        "while KEDA reports Active=False",
        "max({formula}, 0)",
    ),
    "composite-capped": _warning(
        "KEDA caps the lag of this trigger at {partitions} partitions x lagThreshold "
        "{threshold:,}, which the formula's target of {target} divides: more than {most} replicas "
        "are never requested",
        "lagThreshold: {instead}, or allowIdleConsumers",
    ),
    # Targets and logins
    "target-not-scalable": _broken(
        "stored, but never ready: this kind has no scale subresource",
        "a Deployment or a StatefulSet; for Jobs KEDA has ScaledJob",
    ),
    "target-missing": _broken(
        "stored, but never ready: the cluster has no {kind} of this name",
        "apply the workload first",
    ),
    "target-missing/file": _warning(
        "the file contains other workloads, but no {kind} of this name: without it KEDA is never "
        "ready",
        "the name of the workload",
    ),
    "container-missing": _broken(
        "stored, but never ready: the target has no such container", "one of {names}"
    ),
    "grace-period-short": _warning(
        "a pod needs {parts}: each scale-down kills pods that still work, their messages in flight "
        "are processed again, and the group waits for session.timeout.ms",
        "{needed} or more",
    ),
    "request-not-checked": _note(
        "the webhook rejects a cpu or memory trigger if a container of the target has no request "
        "for it; the target is not in this file"
    ),
    "login-missing": _broken(
        "stored, but never ready: neither the file nor the cluster has it", "apply the {kind} first"
    ),
    "login-not-in-file": _note(
        "is looked up only when KEDA builds the trigger: without it, the policy is stored and "
        "never ready"
    ),
    # The object itself
    "copied-out": _note("was read from a cluster; the API server writes it itself", "leave it out"),
    "copied-out/unknown-version": _warning(
        "kubectl apply takes it only while the object in the cluster has this version",
        "leave it out",
    ),
    "copied-out/version": _Text(
        "refused", "resourceVersion should not be set on objects to be created", "leave it out"
    ),
    "finalizer-name": _warning(
        "another program may write a finalizer of this name, too", "DOMAIN/NAME"
    ),
    "operator-refuses": _broken("stored, but never ready: {said}", "{hint}"),
    "hpa-refused": _broken("stored, but never ready: {said}", "{hint}"),
    "not-rehearsed-here": _warning(
        "{who} accepts it, the embedded autoscaler does not support it", "{allowed}"
    ),
    "other-autoscaler": _broken(
        "stored, but {other} scales it, too: two HPAs fight over the replicas",
        "one autoscaler for each workload: add the metric there as a trigger",
    ),
    "resource-unknown": _broken(
        "stored, but the metrics API of pods has no such resource: nothing scales on it",
        "cpu or memory",
    ),
}


def found(key: str, field: str, value: str, **facts: Any) -> Finding:
    """Return a finding with its texts, in which ``facts`` are filled in."""
    level, happens, instead = _TEXTS[key]
    code = key.partition("/")[0]
    happens, instead = (text.format(value=value, **facts) for text in (happens, instead))
    return Finding(level, code, field, value, happens, instead)
