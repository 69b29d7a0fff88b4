"""KEDA's rules from offsets to the kafka metric: lag per partition, caps, activation.

Follows KEDA 2.21.0, quirks included: the cap divides integers, so ``partitions + 1`` replicas can
come out, and with even distribution the metric is never below one threshold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite, isinf, isnan
from typing import Any

from lag_scaler.keda_values import divisors
from lagbench.core.keda.loop.scalers import MetricReading, ScalerFailed
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """Offsets of one partition; None: the broker knows none (which is never zero).

    ``end`` is the offset that the next record will get, ``committed`` the next one to be read.
    """

    end: int | None
    committed: int | None
    earliest: int | None = None

    @property
    def lag_records(self) -> int | None:
        """Records between the committed offset and the end; None when either is unknown."""
        if self.end is None or self.committed is None:
            return None
        return self.end - self.committed


@dataclass(frozen=True, slots=True)
class PersistentLagMemory:
    """Committed offsets of the last poll that saw one: excludePersistentLag compares with them.

    Lives as long as KEDA's scaler object: a new ScaledObject generation or any scaler error
    starts with an empty one.
    """

    committed: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LagReading:
    """The result of one poll: the metric for the HPA, and whether the trigger is active."""

    metric: int  # raw total; below zero when commits run ahead of the end, then served as zero
    is_active: bool
    total_with_persistent: int
    partition_count: int
    partitions_with_lag: int
    lag_by_partition: Mapping[TopicPartition, int]


def needs_earliest(trigger: KafkaTrigger, offsets: PartitionOffsets) -> bool:
    """Return whether KEDA also requests the oldest offset of this partition."""
    return (
        trigger.offset_reset_policy == "earliest"
        and not trigger.scale_to_zero_on_invalid_offset
        and offsets.committed is None
    )


def partition_lag(
    trigger: KafkaTrigger, offsets: PartitionOffsets, remembered: int | None
) -> tuple[int, int]:
    """Return (lag, lag with persistent) of one partition; ``remembered``: the last commit."""
    if offsets.committed is None:
        lag = _lag_without_commit(trigger, offsets)
        return lag, lag
    if offsets.end is None:
        return 0, 0
    full = offsets.end - offsets.committed
    if trigger.exclude_persistent_lag and remembered == offsets.committed:
        return 0, full
    return full, full


def _lag_without_commit(trigger: KafkaTrigger, offsets: PartitionOffsets) -> int:
    if trigger.scale_to_zero_on_invalid_offset:
        return 0
    if trigger.offset_reset_policy == "latest":
        return 1
    if offsets.end is None:
        return 0
    if offsets.earliest is None:
        return offsets.end
    return max(0, offsets.end - offsets.earliest)


def read_lag(
    trigger: KafkaTrigger,
    offsets: Mapping[TopicPartition, PartitionOffsets],
    memory: PersistentLagMemory,
) -> tuple[LagReading, PersistentLagMemory]:
    """Return the poll's reading and the memory for the next poll."""
    lags: dict[TopicPartition, int] = {}
    remembered = dict(memory.committed)
    total_with_persistent = 0
    for key, partition in offsets.items():
        lags[key], with_persistent = partition_lag(trigger, partition, remembered.get(key))
        total_with_persistent += with_persistent
        is_compared = trigger.exclude_persistent_lag and partition.end is not None
        if is_compared and partition.committed is not None:
            remembered[key] = partition.committed
    reading = LagReading(
        metric=capped_total(
            trigger,
            sum(lags.values()),
            partitions=len(lags),
            count_with_lag=lambda: sum(lag > 0 for lag in lags.values()),
        ),
        is_active=total_with_persistent > trigger.activation_lag_threshold,
        total_with_persistent=total_with_persistent,
        partition_count=len(lags),
        partitions_with_lag=sum(lag > 0 for lag in lags.values()),
        lag_by_partition=lags,
    )
    return reading, PersistentLagMemory(remembered)


def capped_total(
    trigger: KafkaTrigger, total: int, *, partitions: int, count_with_lag: Callable[[], int]
) -> int:
    """Return the metric of a total lag: at most as many thresholds as partitions may count."""
    threshold = trigger.lag_threshold
    is_limited = trigger.limit_to_partitions_with_lag
    is_even = trigger.ensure_even_distribution_of_partitions
    if trigger.allow_idle_consumers and not is_limited and not is_even:
        return total
    if is_even:
        total = even_factor(total, partitions, threshold) * threshold
    bound = count_with_lag() if is_limited else partitions
    # Go divides toward zero; below zero no bound is ever exceeded.
    if total > 0 and total // threshold > bound:
        return bound * threshold
    return total


def even_factor(total: int, partition_count: int, threshold: int) -> int:
    """Return the smallest divisor of ``partition_count`` that covers ``total``, else all of it."""
    for divisor in divisors(partition_count):
        if divisor * threshold >= total:
            return divisor
    return partition_count


# What stands for a sample without a value; ignoreNullValues does not look at it.
_NULL = -1.0

_LOST = "prometheus metrics 'prometheus' target may be lost, the {} is empty"


def read_answer(trigger: PrometheusTrigger, status: int, body: bytes) -> MetricReading:
    """Return what one poll says; ``ScalerFailed`` when the answer fails it.

    ``status`` in the body is not looked at: an error of Prometheus with HTTP 200 has no result.
    """
    if not 200 <= status <= 299:
        raise ScalerFailed(f"prometheus query api returned error. status: {status}")
    value, is_active = trigger.reading(_value(trigger, _result(body)))
    return MetricReading((value,), is_active)


def _value(trigger: PrometheusTrigger, result: list[Any]) -> float:
    if not result:
        return _null(trigger, _LOST.format("result"))
    if len(result) > 1:
        raise ScalerFailed(f"prometheus query {trigger.query} returned multiple elements")
    pair = _typed(_member(_typed(result[0], Mapping, "a series"), "value"), list, "a value") or []
    if not pair:
        return _null(trigger, _LOST.format("value list"))
    if len(pair) < 2:
        raise ScalerFailed(f"prometheus query {trigger.query} didn't return enough values")
    if pair[1] is None:
        return _NULL
    if not isinstance(pair[1], str):
        # KEDA's scaler panics there.
        raise ScalerFailed(f"the value of a sample is not a text: {json.dumps(pair[1])}")
    try:
        value = _number(pair[1])
    except ValueError as error:
        raise ScalerFailed(f"the value of a sample is not a number: {pair[1]}") from error
    if isfinite(value):
        return value
    shown = "NaN" if isnan(value) else f"{value:+}".replace("inf", "Inf")
    return _null(trigger, f"prometheus query returns {shown}")


def _number(text: str) -> float:
    """Return a number as Go reads it: without blanks, in hexadecimal too, none out of range."""
    value = float.fromhex(text) if "0x" in text.lower() else float(text)
    if text != text.strip() or (isinf(value) and "inf" not in text.lower()):
        raise ValueError(text)
    return value


def _null(trigger: PrometheusTrigger, problem: str) -> float:
    if trigger.ignore_null_values:
        return 0.0
    raise ScalerFailed(problem)


def _result(body: bytes) -> list[Any]:
    """Return the series of an answer; what is null or absent has none."""
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise ScalerFailed(f"the answer is not JSON: {error}") from error
    document = _typed(answer, Mapping, "the answer")
    _typed(_member(document, "status"), str, "status")
    data = _typed(_member(document, "data"), Mapping, "data")
    _typed(_member(data, "resultType"), str, "resultType")
    result = _typed(_member(data, "result"), list, "result") or []
    for series in result:
        _typed(_member(_typed(series, Mapping, "a series"), "metric"), Mapping, "metric")
    return result


def _member(found: Mapping[str, Any] | None, name: str) -> Any:
    """Return a member as Go's decoder finds it: in any case, and the last of several."""
    fitting = [value for key, value in (found or {}).items() if key.lower() == name.lower()]
    return fitting[-1] if fitting else None


def _typed(found: Any, kind: type, what: str) -> Any:
    if found is not None and not isinstance(found, kind):
        raise ScalerFailed(f"the answer is none of Prometheus: {what} is {json.dumps(found)[:60]}")
    return found
