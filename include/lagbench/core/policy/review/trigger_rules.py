"""Effects of triggers' parameters that their names do not show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lag_scaler.metadata import InvalidMetadata, parse_lag_settings
from lagbench.core.hpa.controller_flags import GATES, KUBERNETES_ANNOTATION
from lagbench.core.keda.object.scaled_object_spec import Trigger
from lagbench.core.keda.triggers.cron_trigger import CronTrigger
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger
from lagbench.core.keda.triggers.trigger_authentication import ContainerVariables, is_unknown
from lagbench.core.keda.triggers.trigger_types import TRIGGER_TYPES, ExternalTrigger
from lagbench.core.policy.finding import LOGIN_PARAMETERS, NOT_SHOWN, Finding, shown
from lagbench.core.policy.policy import Policy
from lagbench.core.policy.policy_limits import calls_lag_scaler
from lagbench.core.policy.review.finding_texts import found
from lagbench.core.policy.review.subject import Subject
from lagbench.core.policy.stream_windows import WINDOWS_ANNOTATION
from lagbench.errors import WrongInput

# A quarter of the promise is left for the reaction: a sync, a pod's start, a rebalance.
SHARE_OF_SLO = 0.75
_NEAR = 1.25
_LAG_SCALER_PORT = 6000
_VARIABLE = ("bootstrapServers", "consumerGroup", "topic")
_NOT_OF_KAFKA = {
    "authenticationMode": "sasl (none, plaintext, scram_sha256, scram_sha512) and tls (enable)"
}


def trigger_findings(subject: Subject, trigger: Trigger) -> Iterator[Finding]:
    """Yield the findings of one trigger."""
    metadata: Mapping[str, str] = subject.written["triggers"][trigger.index]["metadata"]
    field, read = f"spec.triggers[{trigger.index}].metadata", trigger.parameters
    if isinstance(read, KafkaTrigger):
        yield from _kafka(subject, read, metadata, field)
    yield from _activation(subject, trigger, field)
    is_on_lag = isinstance(read, PrometheusTrigger) and read.counts_lag
    if (is_on_lag or isinstance(read, KafkaTrigger)) and trigger.metric_type == "Value":
        yield subject.found("value-target", f"spec.triggers[{trigger.index}].metricType")
    if isinstance(read, CronTrigger):
        yield from _cron(subject, read, field)
    if isinstance(read, ExternalTrigger):
        yield from _external(subject, read, field)
        if calls_lag_scaler(trigger.type, metadata):
            yield from _lag_scaler(subject, read, field)
    for remark in TRIGGER_TYPES[trigger.type].remarks(read, metadata):
        place, value = f"{field}.{remark.parameter}", shown(remark.value)
        yield Finding(remark.level, remark.code, place, value, remark.happens, remark.instead)
    yield from _variables(subject, trigger, metadata, field)


def _kafka(
    subject: Subject, kafka: KafkaTrigger, metadata: Mapping[str, str], field: str
) -> Iterator[Finding]:
    found, even = subject.found, kafka.ensure_even_distribution_of_partitions
    if not metadata.get("lagThreshold", "").strip():
        yield found("threshold-default", f"{field}.lagThreshold")
    if even and kafka.allow_idle_consumers:
        yield found("idle-consumers-ignored", f"{field}.allowIdleConsumers")
    if even:
        place = f"{field}.ensureEvenDistributionOfPartitions"
        yield found("even-never-zero", place, threshold=kafka.lag_threshold)
    if kafka.exclude_persistent_lag:
        yield found("persistent-lag-flaps", f"{field}.excludePersistentLag")
    if metadata.get("partitionLimitation", "").strip() and not kafka.topic:
        yield found("limitation-ignored", f"{field}.partitionLimitation")
    if not kafka.topic:
        yield found("all-topics", f"{field}.topic", "(absent)")
    if kafka.offset_reset_policy == "latest" and not kafka.scale_to_zero_on_invalid_offset:
        value = shown(metadata.get("offsetResetPolicy") or "(absent: latest)")
        more = ", and never goes to 0 while it is idle" if subject.spec.floor == 0 else ""
        yield found("latest-hides-backlog", f"{field}.offsetResetPolicy", value, more=more)


def _activation(subject: Subject, trigger: Trigger, field: str) -> Iterator[Finding]:
    spec, read = subject.spec, trigger.parameters
    if isinstance(read, KafkaTrigger):
        key, target, what = "activationLagThreshold", "lagThreshold", "messages"
        activation, threshold = float(read.activation_lag_threshold), float(read.lag_threshold)
    elif isinstance(read, PrometheusTrigger):
        key, target, what = "activationThreshold", "threshold", "of the metric"
        activation, threshold = read.activation_threshold, read.threshold
    else:
        return
    if activation and spec.floor > 0 and spec.idle_replica_count is None:
        yield subject.found("activation-ignored", f"{field}.{key}")
    elif activation > threshold and not spec.idle_replica_count:
        yield subject.found(
            "activation-over-threshold",
            f"{field}.{key}",
            least=threshold + 1,
            most=activation,
            what=what,
            others="" if len(spec.triggers) == 1 else ", unless another trigger is active",
            threshold=threshold,
            target=target,
        )


def _cron(subject: Subject, cron: CronTrigger, field: str) -> Iterator[Finding]:
    spec, desired, place = subject.spec, cron.desired_replicas, f"{field}.desiredReplicas"
    try:
        ZoneInfo(cron.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield subject.found("timezone-unknown", f"{field}.timezone")
    if desired <= spec.floor and spec.idle_replica_count is None:
        yield subject.found("cron-under-floor", place)
    if desired > spec.max_replica_count:
        yield subject.found("cron-over-max", place)
    if WINDOWS_ANNOTATION not in subject.annotations:
        yield subject.found("cron-by-clock", f"{field}.start", annotation=WINDOWS_ANNOTATION)


def _external(subject: Subject, external: ExternalTrigger, field: str) -> Iterator[Finding]:
    address, place = external.scaler_address, f"{field}.scalerAddress"
    host = address.partition("://")[2].partition("/")[0] or address
    dialled = host if ":" in host else f"{host}:{_LAG_SCALER_PORT}"
    if "://" in address or ":" not in address:
        key = "scaler-address" if "://" in address else "scaler-address/port"
        yield subject.found(key, place, dialled=dialled)


def _lag_scaler(subject: Subject, read: ExternalTrigger, field: str) -> Iterator[Finding]:
    metadata = read.metadata
    try:
        settings = parse_lag_settings(metadata)
    except InvalidMetadata as error:
        for problem in error.problems:
            if not is_unknown(problem.value):
                place, value = f"{field}.{problem.field}", shown(problem.value)
                yield found("lag-scaler-refuses", place, value, allowed=problem.allowed)
        return
    for key in settings.unknown_keys:
        facts = {"kind": "lag scaler", "who": "it", "meant": "leave it out"}
        yield found("parameter-ignored", f"{field}.{key}", shown(metadata[key]), **facts)
    rule, spec = settings.rule, subject.spec
    if rule.sustain_seconds and rule.lag_metric != "projected":
        place, value = f"{field}.sustainSeconds", f"{rule.sustain_seconds:g}"
        yield found("sustain-waits", place, value)
    if rule.sync_on_step:
        is_early = not subject.limits.flags.has_gate("HPAGeneration")
        key = ("/old" if is_early else "") if read.is_push else "/type"
        yield found(
            f"sync-on-step{key}",
            f"{field}.syncOnStep",
            "true",
            distance=rule.sync_distance_seconds,
            sampling=rule.sampling_interval_seconds,
            since=GATES["HPAGeneration"],
            annotation=KUBERNETES_ANNOTATION,
        )
    # With no pod only lag that persists counts as activity.
    has_other_waker = any(isinstance(item.parameters, KafkaTrigger) for item in spec.triggers)
    if (spec.floor == 0 or spec.idle_replica_count == 0) and not has_other_waker:
        yield found(
            "small-backlog-sleeps",
            f"{field}.lagThreshold",
            f"{rule.lag_threshold:,}",
            unit="s of age" if rule.lag_metric == "seconds" else "records",
            place="in total" if rule.lag_scope == "total" else "on one partition",
            stands=f" for {rule.sustain_seconds:g} s" if rule.sustain_seconds else "",
        )


def _variables(
    subject: Subject, trigger: Trigger, metadata: Mapping[str, str], field: str
) -> Iterator[Finding]:
    """Yield the parameters from variables whose values are not in the file."""
    around = subject.known_objects.environment
    variables = ContainerVariables() if around is None else around
    is_sent = isinstance(trigger.parameters, ExternalTrigger)
    is_kafka = isinstance(trigger.parameters, KafkaTrigger)
    for key, variable in metadata.items():
        name = key.removesuffix("FromEnv")
        is_read = is_sent or (is_kafka and name in _VARIABLE)
        is_used = name != key and not metadata.get(name)
        if is_read and is_used and is_unknown(variables.get(variable, "")):
            yield subject.found("variable-not-known", f"{field}.{key}", variable=variable)


def unread_parameters(triggers: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield the parameters of triggers, as written, that KEDA does not read there."""
    for index, trigger in enumerate(triggers):
        kind, reference = trigger["type"], trigger.get("authenticationRef") or {}
        known = TRIGGER_TYPES.get(kind)
        read = known.read_parameters if known is not None else frozenset()
        for key, value in trigger["metadata"].items() if read else ():
            name, field = key.removesuffix("FromEnv"), f"spec.triggers[{index}].metadata.{key}"
            if name in read:
                continue
            if name in LOGIN_PARAMETERS:
                has = f" ({reference['name']})" if reference else ""
                yield found("login-in-metadata", field, NOT_SHOWN, has=has)
                continue
            close = next(iter(get_close_matches(name, sorted(read), n=1, cutoff=0.6)), "")
            meant = (_NOT_OF_KAFKA.get(name) if kind == "kafka" else None) or close
            facts = {"kind": f"{kind} trigger", "who": "KEDA", "meant": meant or "leave it out"}
            yield found("parameter-ignored", field, shown(value), **facts)


def resource_only_findings(subject: Subject) -> Iterator[Finding]:
    """Yield a word when no trigger sees any lag."""
    limits, triggers = subject.limits, subject.spec.triggers
    if not limits.reads_load:
        key = "" if any(item.is_resource for item in triggers) else "/hours"
        types = ", ".join(item.type for item in triggers)
        most = limits.reachable_replicas
        yield found(f"lag-not-seen{key}", "spec.triggers", types, most=most)


def window_findings(policy: Policy) -> Iterator[Finding]:
    """Yield cron windows that no plan and no run accepts; KEDA does not read the annotation."""
    try:
        _ = policy.windows
    except WrongInput as problem:
        value = shown(problem.value)
        yield found("cron-windows", problem.field, value, allowed=problem.allowed)


def suggest_lag_threshold(pod_rate: float, slo_seconds: float) -> int:
    """Return rate x SLO x 0.75: what one pod may have to do and still keep the promise."""
    return max(1, round(pod_rate * slo_seconds * SHARE_OF_SLO))


def threshold_findings(subject: Subject) -> Iterator[Finding]:
    """Yield how the threshold stands to the rate, the promise and the noise at rest."""
    limits, context = subject.limits, subject.context
    threshold, rate, slo = limits.scales_at_records, context.pod_rate, context.slo_seconds
    if threshold is None:
        return
    field, value = "lagThreshold", f"{threshold:,.10g}"
    if rate is not None and slo is not None:
        suggested, takes = suggest_lag_threshold(rate, slo), threshold / rate
        advice = f"lagThreshold: {suggested:,} ({rate:,.0f}/s x {slo:g} s x {SHARE_OF_SLO}); "
        advice += "it is for a message's wait: the drain of a spike takes longer, so simulate it"
        # A short SLO leads to a threshold at which the replicas swing.
        gain = limits.flags.sync_seconds_in_force * rate / suggested
        if gain > 1:
            advice += f", with a scale-down window: its loop gain of {gain:.1f} is above 1"
        facts = {"rate": rate, "takes": takes, "slo": slo, "advice": advice}
        if takes > slo:
            yield found("threshold-breaks-slo", field, value, **facts)
        elif not suggested / _NEAR <= threshold <= suggested * _NEAR:
            facts["side"] = "below" if threshold < suggested else "above"
            yield found("threshold-suggestion", field, value, share=SHARE_OF_SLO, **facts)
    if context.base_rate is not None:
        floor, tolerated = limits.started_replicas, 1 + limits.tolerances.up
        seconds = context.consumer.lag_at_rest_seconds(context.base_rate, floor)
        held, at_rest = threshold * floor * tolerated, context.base_rate * seconds
        if held < at_rest < math.inf:
            why = "wait between two commits"
            if context.consumer.kind == "spark":
                why = f"(up to {seconds:.1f} s of a batch and its trigger) are published as lag"
            yield found(
                "scales-on-noise",
                field,
                value,
                at_rest=at_rest,
                why=why,
                floor=floor,
                held=held,
                least=round(at_rest / (floor * tolerated)),
            )
