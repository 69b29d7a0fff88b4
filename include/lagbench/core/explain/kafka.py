"""Explain one reading of KEDA's kafka trigger step by step, from offsets to replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lagbench.core.explain.group_target import group_step
from lagbench.core.explain.lag_scaler import Step
from lagbench.core.keda.loop import (
    LagReading,
    PartitionOffsets,
    PersistentLagMemory,
    TopicPartition,
    even_factor,
    read_lag,
)
from lagbench.core.keda.triggers import KafkaTrigger


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """One partition's offsets, the lag that KEDA makes of them, and by which rule."""

    topic: str
    partition: int
    offsets: PartitionOffsets
    lag: int
    rule: str


@dataclass(frozen=True, slots=True)
class KafkaExplanation:
    """A first poll: nothing is remembered for excludePersistentLag yet."""

    partitions: tuple[PartitionLine, ...]
    steps: tuple[Step, ...]


def explain_kafka(
    trigger: KafkaTrigger,
    offsets: Mapping[TopicPartition, PartitionOffsets],
    *,
    min_replicas: int,
    max_replicas: int,
    metric_type: str = "AverageValue",
) -> KafkaExplanation:
    """Return what KEDA 2.21 reads from ``offsets``, and what the HPA first makes of it.

    :param metric_type: of the trigger; ``Value``: the threshold is the group's.
    """
    reading, _ = read_lag(trigger, offsets, PersistentLagMemory())
    lines = tuple(
        PartitionLine(topic, number, offsets[topic, number], lag, _rule(trigger, found))
        for (topic, number), lag in reading.lag_by_partition.items()
        for found in [offsets[topic, number]]
    )
    steps = [
        _total(trigger, reading),
        _cap(trigger, reading),
        _activity(trigger, reading),
        group_step(max(reading.metric, 0), trigger.lag_threshold)
        if metric_type == "Value"
        else _replicas(trigger, reading, min_replicas, max_replicas),
    ]
    return KafkaExplanation(lines, tuple(steps))


def _rule(trigger: KafkaTrigger, offsets: PartitionOffsets) -> str:
    if offsets.committed is not None:
        return "end - committed"
    if trigger.scale_to_zero_on_invalid_offset:
        return "no commit: 0 (scaleToZeroOnInvalidOffset)"
    if trigger.offset_reset_policy == "latest":
        return "no commit: 1 (offsetResetPolicy latest)"
    return "no commit: end - oldest (offsetResetPolicy earliest)"


def _total(trigger: KafkaTrigger, reading: LagReading) -> Step:
    note = "sum over the partitions"
    if trigger.exclude_persistent_lag:
        note += "; excludePersistentLag: from the second poll on, stuck partitions count 0"
    seen = f"{reading.partitions_with_lag} of {reading.partition_count} partitions have lag"
    return Step("total", seen, note, f"{_sum(reading)} records")


def _cap(trigger: KafkaTrigger, reading: LagReading) -> Step:
    total, threshold = _sum(reading), trigger.lag_threshold
    is_limited = trigger.limit_to_partitions_with_lag
    is_even = trigger.ensure_even_distribution_of_partitions
    result = f"metric {max(reading.metric, 0)}"
    if trigger.allow_idle_consumers and not is_limited and not is_even:
        return Step("cap", f"{total} records", "allowIdleConsumers: none", result)
    texts = []
    if is_even:
        factor = even_factor(total, reading.partition_count, threshold)
        texts.append(f"even distribution: {factor} x {threshold}, a divisor of the partitions")
        total = factor * threshold
    bound = reading.partitions_with_lag if is_limited else reading.partition_count
    of_what = "partitions with lag" if is_limited else "partitions"
    texts.append(
        f"at most {bound} ({of_what}) x {threshold}, compared after an integer division: "
        f"{total} // {threshold} = {total // threshold}"
    )
    return Step("cap", f"{_sum(reading)} records", "; ".join(texts), result)


def _activity(trigger: KafkaTrigger, reading: LagReading) -> Step:
    return Step(
        "activity",
        f"{reading.total_with_persistent} records",
        f"above activationLagThreshold {trigger.activation_lag_threshold} (0 <-> 1 replicas)",
        "active" if reading.is_active else "not active",
    )


def _replicas(
    trigger: KafkaTrigger, reading: LagReading, min_replicas: int, max_replicas: int
) -> Step:
    metric, threshold = max(reading.metric, 0), trigger.lag_threshold
    wanted = -(-metric // threshold)
    bounded = min(max(wanted, min_replicas, 1), max_replicas)
    rule = f"ceil(metric / target), then {max(min_replicas, 1)} to {max_replicas}"
    if wanted > reading.partition_count > 0:
        rule += f"; more than the {reading.partition_count} partitions can use"
    return Step(
        "replicas",
        f"{metric} / {threshold} per replica = {metric / threshold:.2f}",
        f"{rule}; before tolerance, stabilisation and rates of the HPA",
        f"{bounded} wanted",
    )


def _sum(reading: LagReading) -> int:
    return sum(reading.lag_by_partition.values())
