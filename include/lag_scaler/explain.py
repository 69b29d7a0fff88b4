"""Explain a decision step by step, down to the replicas."""

from __future__ import annotations

from typing import NamedTuple

from lag_scaler.rule import SPAN_TOLERANCE_INTERVALS, Decision, max_gap_ns

WANTS_STEPS, STEPS = "lagbench-explain", "lagbench-steps-bin"
"""The key in the metadata of a call that requests the steps, and that of the answer."""


class Step(NamedTuple):
    """One step of the way to a decision."""

    name: str
    seen: str
    rule: str
    result: str


def explain(decision: Decision, now_ns: int) -> tuple[Step, ...]:
    """Return the steps in the order in which they were taken."""
    rule, figures, span = decision.rule, decision.figures, decision.span_seconds
    interval, raw = rule.sampling_interval_seconds, f"{decision.raw_metric:g}"
    allowed, half = max_gap_ns(interval) / 1e9, SPAN_TOLERANCE_INTERVALS * interval
    age = (now_ns - figures.at_ns) / 1e9
    unit = "s of age" if rule.lag_metric == "seconds" else "records"
    of_what = "any one partition" if rule.lag_scope == "partition" else "the whole group"
    place = decision.stretch_partition
    where = "in total" if place is None else f"on partition {place}"
    has_stretch = decision.stretch_started_at_ns is not None
    up, down = rule.scale_up_stabilization_seconds, rule.scale_down_stabilization_seconds
    held = f"rises to the lowest of the last {up:g} s, falls to the highest of the last {down:g} s"
    metric = {
        "records": "the counted lag",
        "seconds": "the age of the oldest waiting message of the counted partitions",
        "projected": f"the counted lag, plus its growth over {rule.window_span_seconds:g} s",
    }[rule.lag_metric]
    uncapped = f"{decision.uncapped_metric:g}"
    replicas = _count(int(-(-decision.raw_metric // decision.target)), "replica")
    return (
        Step(
            "sample",
            f"newest sample {age:.1f} s old; {_count(figures.samples, 'sample')} kept",
            f"at most {allowed:g} s old (samplingInterval {interval:g} s)",
            "fresh" if -allowed <= age <= allowed else "stale: no decision",
        ),
        _lag(decision),
        Step(
            "stretch",
            f"at or above it {where} for {span:.1f} s, up to the newest sample"
            if has_stretch
            else "the newest sample is below it",
            f"lagThreshold {rule.lag_threshold} {unit} on {of_what}",
            f"a stretch of {span:.1f} s" if has_stretch else "no stretch",
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
            uncapped,
            f"lagMetric {rule.lag_metric}: {metric}, while lag persists; else 0",
            uncapped if decision.is_persistent or decision.is_early else "0",
        ),
        Step(
            "cap",
            f"{uncapped} / {decision.target:g} per replica",
            _cap(decision),
            f"{raw}, which requests {replicas}",
        ),
        Step(
            "stabilization",
            raw,
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
        f"{growth.out_per_second:.1f}/s over the last {growth.over_seconds:.1f} s: "
        f"{growth.per_second:+.1f}/s at the lower of both",
        f"a stretch of {span:g} s or more which at these rates lasts until sustainSeconds is early",
        result,
    )


def _cap(decision: Decision) -> str:
    text = f"at most one replica for each partition: {decision.bound}"
    if decision.bound is None:
        text = "allowIdleConsumers: none"
    elif decision.rule.limit_to_partitions_with_lag:
        text = f"limitToPartitionsWithLag: at most {_count(decision.bound, 'replica')}"
    even = decision.rule.ensure_even_distribution_of_partitions
    return text + ("; rounded up to a divisor of the partitions" if even else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
