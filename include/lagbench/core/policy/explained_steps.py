"""Explain one reading of KEDA's kafka or prometheus trigger step by step, down to the replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lag_scaler.explain import Step
from lag_scaler.keda_values import go_boolean
from lagbench.core.hpa.controller_flags import GATES
from lagbench.core.keda.loop.scalers import MetricReading
from lagbench.core.keda.loop.source_metrics import (
    LagReading,
    PartitionOffsets,
    PersistentLagMemory,
    TopicPartition,
    even_factor,
    read_lag,
)
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec, Trigger
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger
from lagbench.core.keda.triggers.trigger_types import ExternalTrigger
from lagbench.core.kubernetes_values import metric_milli
from lagbench.core.policy.policy import Policy
from lagbench.core.policy.step_cause import bounded_cause


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """One partition's offsets, the lag that KEDA makes of them, and by which rule."""

    topic: str
    partition: int
    offsets: PartitionOffsets
    lag: int
    rule: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A trigger's first poll, and in one text what it requests (empty: it is not known)."""

    steps: tuple[Step, ...]
    cause: str = ""
    partitions: tuple[PartitionLine, ...] = ()


def version_notes(policy: Policy) -> list[str]:
    """Return what follows the steps on some versions of Kubernetes only."""
    notes, limits, spec = [], policy.limits, policy.spec
    usual, own = limits.flags.tolerances(None), limits.tolerances
    if own != usual:
        since = GATES["HPAConfigurableTolerance"]
        sides = f"{100 * own.up:g} % up and {100 * own.down:g} % down from Kubernetes {since} on"
        notes.append(f"tolerance of the HPA: {sides}, {100 * usual.up:g} % before")
    for trigger in spec.triggers if isinstance(spec, ScaledObjectSpec) else ():
        read, since = trigger.parameters, GATES["HPAGeneration"]
        given = read.metadata if isinstance(read, ExternalTrigger) and read.is_push else {}
        if go_boolean(given.get("syncOnStep", "")) is True:
            at_once = f"the HPA syncs at each step from Kubernetes {since} on"
            notes.append(f"trigger {trigger.index}: {at_once}, on its clock alone before")
    return notes


def explain_sampled(steps: tuple[Step, ...]) -> Explanation:
    """Return the steps of the lag scaler with the cause that they lead to."""
    result = {step.name: step.result for step in steps}
    parts = [result[name] for name in ("lag", "persistence") if name in result]
    cause = ", ".join(parts) + (f": metric {result['cap']}" if "cap" in result else "")
    return Explanation(steps, cause)


def explain_kafka(
    trigger: KafkaTrigger,
    offsets: Mapping[TopicPartition, PartitionOffsets],
    *,
    min_replicas: int,
    max_replicas: int,
    metric_type: str = "AverageValue",
) -> Explanation:
    """Return what KEDA 2.21 reads from ``offsets``, and what the HPA first makes of it.

    Nothing is remembered for excludePersistentLag yet.

    :param metric_type: of the trigger; ``Value``: the threshold is the group's.
    """
    reading, _ = read_lag(trigger, offsets, PersistentLagMemory())
    lines = tuple(
        PartitionLine(topic, number, offsets[topic, number], lag, _rule(trigger, found))
        for (topic, number), lag in reading.lag_by_partition.items()
        for found in [offsets[topic, number]]
    )
    total = f"{sum(reading.lag_by_partition.values())} records"
    note = "sum over the partitions"
    if trigger.exclude_persistent_lag:
        note += "; excludePersistentLag: from the second poll on, stuck partitions count 0"
    seen = f"{reading.partitions_with_lag} of {reading.partition_count} partitions have lag"
    limit = trigger.activation_lag_threshold
    steps = (
        Step("total", seen, note, total),
        Step("cap", total, _cap(trigger, reading), f"metric {max(reading.metric, 0)}"),
        _activity(
            f"{reading.total_with_persistent} records",
            f"activationLagThreshold {limit}",
            is_active=reading.is_active,
        ),
        _replicas(
            max(reading.metric, 0) * 1000,
            trigger.lag_threshold * 1000,
            (min_replicas, max_replicas),
            is_of_group=metric_type == "Value",
            partitions=reading.partition_count,
        ),
    )
    total_lag, counted = sum(reading.lag_by_partition.values()), max(reading.metric, 0)
    requested_by = f"lag {total_lag:,}"
    if counted != total_lag:
        requested_by += f", of which {counted:,} count,"
    cause = ""
    if metric_type != "Value":
        wanted = -(-counted // trigger.lag_threshold)
        cause = bounded_cause(requested_by, wanted, max(min_replicas, 1), max_replicas)
    return Explanation(steps, cause, lines)


def explain_prometheus(
    trigger: Trigger,
    parameters: PrometheusTrigger,
    reading: MetricReading,
    *,
    min_replicas: int,
    max_replicas: int,
) -> Explanation:
    """Return what KEDA 2.21 serves, and what the HPA first makes of it."""
    (value,) = reading.values
    milli = metric_milli(value)
    nulls = "0" if parameters.ignore_null_values else "a failed poll"
    metric = f"metric {milli / 1000:g}"
    steps = (
        Step("query", parameters.query, f"one series; an empty answer is {nulls}", f"{value:g}"),
        Step("metric", f"{value:g}", "three decimals, nothing below zero", metric),
        _activity(
            f"{value:g}",
            f"activationThreshold {parameters.activation_threshold:g}",
            is_active=reading.is_active,
        ),
        _replicas(
            milli,
            parameters.target_milli,
            (min_replicas, max_replicas),
            is_of_group=trigger.metric_type == "Value",
        ),
    )
    cause = ""
    if trigger.metric_type != "Value":
        wanted = -(-milli // parameters.target_milli)
        cause = bounded_cause(metric, wanted, max(min_replicas, 1), max_replicas)
    return Explanation(steps, cause)


def _rule(trigger: KafkaTrigger, offsets: PartitionOffsets) -> str:
    if offsets.committed is not None:
        return "end - committed"
    if trigger.scale_to_zero_on_invalid_offset:
        return "no commit: 0 (scaleToZeroOnInvalidOffset)"
    if trigger.offset_reset_policy == "latest":
        return "no commit: 1 (offsetResetPolicy latest)"
    return "no commit: end - oldest (offsetResetPolicy earliest)"


def _cap(trigger: KafkaTrigger, reading: LagReading) -> str:
    total, threshold = sum(reading.lag_by_partition.values()), trigger.lag_threshold
    is_limited = trigger.limit_to_partitions_with_lag
    is_even = trigger.ensure_even_distribution_of_partitions
    if trigger.allow_idle_consumers and not is_limited and not is_even:
        return "allowIdleConsumers: none"
    text = ""
    if is_even:
        factor = even_factor(total, reading.partition_count, threshold)
        text = f"even distribution: {factor} x {threshold}, a divisor of the partitions; "
        total = factor * threshold
    bound = reading.partitions_with_lag if is_limited else reading.partition_count
    of_what = "partitions with lag" if is_limited else "partitions"
    return (
        f"{text}at most {bound} ({of_what}) x {threshold}, compared after an integer division: "
        f"{total} // {threshold} = {total // threshold}"
    )


def _activity(seen: str, limit: str, *, is_active: bool) -> Step:
    result = "active" if is_active else "not active"
    return Step("activity", seen, f"above {limit} (0 <-> 1 replicas)", result)


def _replicas(
    metric_milli: int,
    target_milli: int,
    bounds: tuple[int, int],
    *,
    is_of_group: bool,
    partitions: int = 0,
) -> Step:
    """Return the last step; a target of the group multiplies the Ready pods."""
    ratio, least = metric_milli / target_milli, max(bounds[0], 1)
    seen = f"{metric_milli / 1000:g} / {target_milli / 1000:g}"
    later = "before tolerance, stabilisation and rates of the HPA"
    if is_of_group:
        rule = f"ceil(ratio x Ready pods), {later}"
        seen = f"{seen} for the group = {ratio:.2f}"
        return Step("replicas", seen, rule, f"{ratio:.2f} x the Ready pods")
    wanted = -(-metric_milli // target_milli)
    rule = f"ceil(metric / target), then {least} to {bounds[1]}"
    if wanted > partitions > 0:
        rule += f"; more than the {partitions} partitions can use"
    bounded = f"{min(max(wanted, least), bounds[1])} wanted"
    return Step("replicas", f"{seen} per replica = {ratio:.2f}", f"{rule}; {later}", bounded)
