"""Explain one reading of KEDA's kafka or prometheus trigger step by step, down to the replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lagbench.core.keda.loop.scalers import MetricReading
from lagbench.core.keda.loop.source_metrics import (
    LagReading,
    PartitionOffsets,
    PersistentLagMemory,
    TopicPartition,
    even_factor,
    read_lag,
)
from lagbench.core.keda.object.scaled_object_spec import Trigger
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger
from lagbench.core.kubernetes_values import metric_milli
from lagbench.core.lag_scaler.lag_rule import MAX_GAP_INTERVALS, SPAN_TOLERANCE_INTERVALS, Decision


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the way to a decision."""

    name: str
    seen: str
    rule: str
    result: str


def explain(decision: Decision, now_ns: int) -> tuple[Step, ...]:
    """Return the steps in the order in which they were taken."""
    rule, figures, span = decision.rule, decision.figures, decision.span_seconds
    interval, target = rule.sampling_interval_seconds, decision.target
    allowed = MAX_GAP_INTERVALS * interval
    age = (now_ns - figures.at_ns) / 1e9
    half = SPAN_TOLERANCE_INTERVALS * interval
    unit = "s of age" if rule.lag_metric == "seconds" else "records"
    of_what = "any one partition" if rule.lag_scope == "partition" else "the whole group"
    up, down = rule.scale_up_stabilization_seconds, rule.scale_down_stabilization_seconds
    held = f"rises to the lowest of the last {up:g} s, falls to the highest of the last {down:g} s"
    counts = decision.is_persistent or decision.is_early
    metrics = {
        "records": "the counted lag",
        "seconds": "the age of the oldest waiting message of the counted partitions",
        "projected": f"the counted lag, plus its growth over {rule.window_span_seconds:g} s",
    }
    replicas = _count(int(-(-decision.raw_metric // target)), "replica")
    return (
        Step(
            "sample",
            f"newest sample {age:.1f} s old; {_count(figures.samples, 'sample')} kept",
            f"at most {allowed:g} s old (2.5 x samplingInterval {interval:g} s)",
            "fresh" if -allowed <= age <= allowed else "stale: no decision",
        ),
        _lag(decision),
        Step(
            "stretch",
            _seen_stretch(decision),
            f"lagThreshold {rule.lag_threshold} {unit} on {of_what}",
            "no stretch"
            if decision.stretch_started_at_ns is None
            else f"a stretch of {span:.1f} s",
        ),
        Step(
            "persistence",
            f"the stretch spans {span:.1f} s",
            f"sustainSeconds {rule.sustain_seconds:g}, met within {half:g} s (half an interval)",
            "persistent" if decision.is_persistent else "not persistent",
        ),
        *([_projection(decision)] if rule.lag_metric == "projected" else []),
        Step(
            "metric",
            f"{decision.uncapped_metric:g}",
            f"lagMetric {rule.lag_metric}: {metrics[rule.lag_metric]}, while lag persists; else 0",
            f"{decision.uncapped_metric:g}" if counts else "0",
        ),
        Step(
            "cap",
            f"{decision.uncapped_metric:g} / {target:g} per replica",
            _cap_of_explain_lag_scaler(decision),
            f"{decision.raw_metric:g}, which requests {replicas}",
        ),
        Step(
            "stabilization",
            f"{decision.raw_metric:g}",
            held if up or down else "none",
            f"metric {decision.metric_value:g}" + (" (held)" if decision.is_held else ""),
        ),
        Step(
            "activity",
            f"{figures.total_lag} records",
            "active while lag persists (or is held) and is above activationLagThreshold "
            f"{rule.activation_lag_threshold}",
            "active" if decision.is_active else "not active",
        ),
    )


def _lag(decision: Decision) -> Step:
    rule, figures = decision.rule, decision.figures
    seen = (
        f"{figures.total_lag} records on {figures.partitions_with_lag} of "
        f"{_count(figures.partitions, 'partition')}; most on partition "
        f"{figures.largest_partition}: {figures.largest_lag}"
    )
    if figures.oldest_age_ns is not None:
        bound = "at least " if figures.is_age_a_bound else ""
        seen += f"; oldest waiting message {bound}{figures.oldest_age_ns / 1e9:.1f} s old"
    texts = []
    if figures.without_commit:
        meaning = "all records still in the log (offsetResetPolicy earliest)"
        if rule.wakes_for_backlog:
            meaning = "all records in the topic (scaleToZeroOnInvalidOffset of Iggy)"
        elif rule.scale_to_zero_on_invalid_offset:
            meaning = "no lag (scaleToZeroOnInvalidOffset)"
        elif rule.offset_reset_policy == "latest":
            meaning = "one record each, as in KEDA (offsetResetPolicy latest)"
        texts.append(f"{_count(figures.without_commit, 'partition')} without a commit: {meaning}")
    if rule.partition_limitation is not None:
        texts.append("partitionLimitation leaves the others out")
    if rule.exclude_persistent_lag:
        texts.append("a partition whose commit did not move since the last sample is not counted")
    usual = "end offset minus committed offset, expired records left out"
    return Step("lag", seen, "; ".join(texts) or usual, f"{figures.counted_lag} records counted")


def _seen_stretch(decision: Decision) -> str:
    if decision.stretch_started_at_ns is None:
        return "the newest sample is below it"
    where = decision.stretch_partition
    place = "in total" if where is None else f"on partition {where}"
    return f"at or above it {place} for {decision.span_seconds:.1f} s, up to the newest sample"


def _projection(decision: Decision) -> Step:
    rule, growth = decision.rule, decision.growth
    span = rule.evidence_intervals * rule.sampling_interval_seconds
    if growth is None:
        return Step("projection", "too few samples for rates", f"{span:g} s of them", "no growth")
    result = "drains, or may drain, before the sustain time"
    if decision.is_persistent:
        result = "not needed: persistent already"
    elif decision.is_early:
        result = "cannot be drained below the threshold within the sustain time: acted on early"
    return Step(
        "projection",
        f"in {growth.in_per_second:.1f}/s (usually {growth.usual_in_per_second:.1f}/s), out "
        f"{growth.out_per_second:.1f}/s over the last {growth.over_seconds:.0f} s: "
        f"{growth.per_second:+.1f}/s at the lower of both",
        f"a stretch of {span:g} s or more which at these rates lasts until sustainSeconds is early",
        result,
    )


def _cap_of_explain_lag_scaler(decision: Decision) -> str:
    text = f"at most one replica for each partition: {decision.bound}"
    if decision.bound is None:
        text = "allowIdleConsumers: none"
    elif decision.rule.limit_to_partitions_with_lag:
        text = f"limitToPartitionsWithLag: at most {_count(decision.bound, 'replica')}"
    if decision.rule.ensure_even_distribution_of_partitions:
        text += "; rounded up to a divisor of the partitions"
    return text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


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
    return KafkaExplanation(lines, steps)


def explain_prometheus(
    trigger: Trigger,
    parameters: PrometheusTrigger,
    reading: MetricReading,
    *,
    min_replicas: int,
    max_replicas: int,
) -> tuple[Step, ...]:
    """Return what KEDA 2.21 serves, and what the HPA first makes of it."""
    (value,) = reading.values
    milli = metric_milli(value)
    nulls = "0" if parameters.ignore_null_values else "a failed poll"
    metric = f"metric {milli / 1000:g}"
    return (
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
