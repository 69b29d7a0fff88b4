"""Find effects of the parameters of lag triggers that their names do not show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from lagbench.core.keda.object import ExternalTrigger, KafkaTrigger, Trigger
from lagbench.core.keda.triggers import (
    TRIGGER_TYPES,
    ContainerVariables,
    PrometheusTrigger,
    is_unknown,
)
from lagbench.core.policy.limits import lag_threshold_key
from lagbench.core.policy.review.finding import LOGIN_PARAMETERS, Finding, Subject, shown

_VARIABLE = ("bootstrapServers", "consumerGroup", "topic")
_NOT_OF_KAFKA = {
    "authenticationMode": "sasl (none, plaintext, scram_sha256, scram_sha512) and tls (enable)"
}


def lag_trigger_findings(subject: Subject, trigger: Trigger) -> Iterator[Finding]:
    """Yield the findings of one kafka trigger."""
    kafka = trigger.parameters
    if not isinstance(kafka, KafkaTrigger):
        return
    metadata: Mapping[str, str] = subject.written["triggers"][trigger.index]["metadata"]
    field = f"spec.triggers[{trigger.index}].metadata"
    if not metadata.get("lagThreshold", "").strip():
        yield Finding(
            "warning",
            "threshold-default",
            f"{field}.lagThreshold",
            "(absent)",
            "counts as 10 messages per replica: any backlog requests all replicas",
            "lagThreshold: rate x SLO x 0.75",
        )
    yield from _counting(subject, kafka, metadata, field)


def value_target_findings(subject: Subject, trigger: Trigger) -> Iterator[Finding]:
    """Yield what a target of type Value means for a trigger on lag."""
    written = subject.written["triggers"][trigger.index]
    is_on_lag = isinstance(trigger.parameters, KafkaTrigger) or lag_threshold_key(written)
    if is_on_lag and trigger.metric_type == "Value":
        yield Finding(
            "warning",
            "value-target",
            f"spec.triggers[{trigger.index}].metricType",
            "Value",
            "the target is for the group, not per replica: at twice the target the ready pods "
            "double at every sync until maxReplicaCount",
            "metricType: AverageValue, or leave it out",
        )


def own_findings(subject: Subject, trigger: Trigger) -> Iterator[Finding]:
    """Yield what the record of the trigger's type remarks."""
    metadata: Mapping[str, str] = subject.written["triggers"][trigger.index]["metadata"]
    for remark in TRIGGER_TYPES[trigger.type].remarks(trigger.parameters, metadata):
        yield Finding(
            remark.level,
            remark.code,
            f"spec.triggers[{trigger.index}].metadata.{remark.parameter}",
            shown(remark.value),
            remark.happens,
            remark.instead,
        )


def unread_parameters(triggers: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield the parameters of triggers, as written, that KEDA does not read there."""
    for index, trigger in enumerate(triggers):
        known = TRIGGER_TYPES.get(trigger["type"])
        if known is not None and known.read_parameters:
            yield from _unread(trigger, f"spec.triggers[{index}].metadata", known.read_parameters)


def _unread(trigger: Mapping[str, Any], field: str, read: frozenset[str]) -> Iterator[Finding]:
    kind, reference = trigger["type"], trigger.get("authenticationRef") or {}
    for key, value in trigger["metadata"].items():
        name = key.removesuffix("FromEnv")
        if name in read:
            continue
        if name in LOGIN_PARAMETERS:
            has = f" ({reference['name']})" if reference else ""
            yield Finding(
                "warning",
                "login-in-metadata",
                f"{field}.{key}",
                "(not shown)",
                "not read here, and visible to everyone with read access",
                f"a TriggerAuthentication and its Secret, by authenticationRef{has}",
            )
            continue
        close = next(iter(get_close_matches(name, sorted(read), n=1, cutoff=0.6)), "")
        meant = (_NOT_OF_KAFKA.get(name) if kind == "kafka" else None) or close
        yield Finding(
            "warning",
            "parameter-ignored",
            f"{field}.{key}",
            shown(value),
            f"not a parameter of the {kind} trigger: KEDA silently ignores it",
            meant or "leave it out",
        )


def variable_findings(subject: Subject, trigger: Trigger) -> Iterator[Finding]:
    """Yield the parameters from variables whose values are not in the file."""
    metadata: Mapping[str, str] = subject.written["triggers"][trigger.index]["metadata"]
    around = subject.known_objects.environment
    variables = ContainerVariables() if around is None else around
    is_sent = isinstance(trigger.parameters, ExternalTrigger)
    is_kafka = isinstance(trigger.parameters, KafkaTrigger)
    for key, variable in metadata.items():
        name = key.removesuffix("FromEnv")
        if name == key or metadata.get(name) or not (is_sent or (is_kafka and name in _VARIABLE)):
            continue
        if is_unknown(variables.get(variable, "")):
            yield Finding(
                "note",
                "variable-not-known",
                f"spec.triggers[{trigger.index}].metadata.{key}",
                shown(variable, key),
                f"the value of {variable} is not known from this file: KEDA reads it from the "
                "target's container. A run replaces brokers, topic and group",
                "the target, and its ConfigMap or Secret, beside it, in this file or another",
            )


def _counting(
    subject: Subject, kafka: KafkaTrigger, metadata: Mapping[str, str], field: str
) -> Iterator[Finding]:
    even = kafka.ensure_even_distribution_of_partitions
    if even and kafka.allow_idle_consumers:
        yield Finding(
            "warning",
            "idle-consumers-ignored",
            f"{field}.allowIdleConsumers",
            "true",
            "the even distribution restores the cap at the partitions",
            "one of the two",
        )
    if even:
        yield Finding(
            "note",
            "even-never-zero",
            f"{field}.ensureEvenDistributionOfPartitions",
            "true",
            f"the metric never falls below lagThreshold ({kafka.lag_threshold:,}), even at zero "
            "lag; activation still uses the true lag",
        )
    if kafka.exclude_persistent_lag:
        yield Finding(
            "warning",
            "persistent-lag-flaps",
            f"{field}.excludePersistentLag",
            "true",
            "a partition whose offset has not moved between two reads counts as 0, and both KEDA "
            "and the HPA read: where commits are further apart than 15 s the proposal flaps "
            "between all and nothing",
            "commit at least every 5 s, and a scaleDown window of 60 s or more",
        )
    if metadata.get("partitionLimitation", "").strip() and not kafka.topic:
        yield Finding(
            "warning",
            "limitation-ignored",
            f"{field}.partitionLimitation",
            shown(metadata["partitionLimitation"]),
            "dropped without a topic: all partitions of all topics of the group count",
            "a topic",
        )
    if not kafka.topic:
        yield Finding(
            "warning",
            "all-topics",
            f"{field}.topic",
            "(absent)",
            "KEDA sums the lag of every topic for which the group has committed offsets: a backlog "
            "of another topic scales these pods, and a topic without a commit counts as nothing",
            "topic: the one that the target reads",
        )
    if kafka.offset_reset_policy == "latest" and not kafka.scale_to_zero_on_invalid_offset:
        written = shown(metadata.get("offsetResetPolicy") or "(absent: latest)")
        yield Finding(
            "warning",
            "latest-hides-backlog",
            f"{field}.offsetResetPolicy",
            written,
            "a partition without a committed offset counts as 1 message, whatever its backlog: "
            "the lag of a new group is underestimated"
            + (", and never goes to 0 while it is idle" if subject.spec.floor == 0 else ""),
            "offsetResetPolicy: earliest, if the consumers begin there",
        )


def activation_findings(subject: Subject, trigger: Trigger) -> Iterator[Finding]:
    """Yield what the activation of a trigger does with one replica or with none."""
    spec, read = subject.spec, trigger.parameters
    if isinstance(read, KafkaTrigger):
        key, target = "activationLagThreshold", "lagThreshold"
        activation, threshold = float(read.activation_lag_threshold), float(read.lag_threshold)
    elif isinstance(read, PrometheusTrigger):
        key, target = "activationThreshold", "threshold"
        activation, threshold = read.activation_threshold, read.threshold
    else:
        return
    field = f"spec.triggers[{trigger.index}].metadata.{key}"
    if activation and spec.floor > 0 and spec.idle_replica_count is None:
        yield Finding(
            "warning",
            "activation-ignored",
            field,
            f"{activation:g}",
            "applies only between 0 (or idle) and 1; no effect with minReplicaCount "
            f"{spec.floor} nothing",
            "leave it out",
        )
    elif activation > threshold and not spec.idle_replica_count:
        others = "" if len(spec.triggers) == 1 else ", unless another trigger is active"
        what = "messages" if isinstance(read, KafkaTrigger) else "of the metric"
        yield Finding(
            "warning",
            "activation-over-threshold",
            field,
            f"{activation:g}",
            f"{threshold + 1:,.10g} to {activation:,.10g} {what}, more than one replica may hold, "
            f"wait for ever at 0 pods{others}",
            f"at most {threshold:.10g}, the {target}",
        )
