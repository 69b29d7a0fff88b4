"""KEDA's lag rules: reset policies, caps, even distribution, persistent lag."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.triggers import read_trigger

from lagbench.core.keda.loop.source_metrics import (
    LagReading,
    PartitionOffsets,
    PersistentLagMemory,
    read_lag,
)
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger


def trigger(**metadata: str) -> KafkaTrigger:
    """Return a trigger with a topic."""
    required = {"bootstrapServers": "b:9092", "consumerGroup": "g", "topic": "t"}
    return read_trigger("kafka", {**required, **metadata})


def reading_of(rules: KafkaTrigger, lags: list[int]) -> LagReading:
    """Return the reading for partitions with these lags."""
    offsets = {
        ("t", number): PartitionOffsets(end=1000, committed=1000 - lag)
        for number, lag in enumerate(lags)
    }
    return read_lag(rules, offsets, PersistentLagMemory())[0]


def test_integer_division_lets_the_cap_ask_for_one_pod_too_many() -> None:
    """Threshold 10, 3 partitions, lag 39 is not capped: the HPA then wants 4."""
    reading = reading_of(trigger(), [13, 13, 13])

    assert reading.metric == 39
    assert math.ceil(reading.metric / 10) == 4


@pytest.mark.parametrize(("total", "metric"), [(119, 119), (120, 120), (129, 129), (130, 120)])
def test_the_cap_begins_one_threshold_above_the_partitions(total: int, metric: int) -> None:
    """With 12 partitions and threshold 10, totals up to 129 pass and 130 becomes 120."""
    assert reading_of(trigger(), [total, *[0] * 11]).metric == metric


def test_idle_consumers_lift_the_cap() -> None:
    """With allowIdleConsumers the total is served as it is."""
    assert reading_of(trigger(allowIdleConsumers="true"), [500, 0]).metric == 500


@pytest.mark.parametrize(
    ("total", "metric"),
    [
        (0, 10),
        (1, 10),
        (10, 10),
        (11, 20),
        (20, 20),
        (21, 50),
        (50, 50),
        (51, 100),
        (100, 100),
        (500, 100),
    ],
)
def test_even_distribution_asks_for_a_divisor_of_the_partitions(total: int, metric: int) -> None:
    """Ten partitions are shared by 1, 2, 5 or 10 pods, never by none."""
    reading = reading_of(trigger(ensureEvenDistributionOfPartitions="true"), [total, *[0] * 9])

    assert reading.metric == metric
    assert reading.is_active == (total > 0)


def test_only_partitions_with_lag_count_when_limited_to_them() -> None:
    """Two lagging partitions allow two pods, while activation sees all of the lag."""
    rules = trigger(limitToPartitionsWithLag="true")
    reading = reading_of(rules, [50, 0, 50, 0, 0])

    assert (reading.metric, reading.partitions_with_lag) == (20, 2)
    assert reading.total_with_persistent == 100
    assert reading_of(rules, [0, 0]).metric == 0


def test_partitions_without_commit_count_one_each_under_policy_latest() -> None:
    """Four partitions without any commit: metric 4, active, so one pod is started."""
    offsets = {("t", number): PartitionOffsets(end=7, committed=None) for number in range(4)}

    reading, _ = read_lag(trigger(), offsets, PersistentLagMemory())

    assert (reading.metric, reading.is_active) == (4, True)


def test_excluded_persistent_lag_vanishes_from_the_metric_but_keeps_the_target_awake() -> None:
    """Stored 50 and 90 of 100: the first poll gives the cap 20, the second 0, both active."""
    rules = trigger(excludePersistentLag="true")
    offsets = {("t", 0): PartitionOffsets(100, 50), ("t", 1): PartitionOffsets(100, 90)}

    first, memory = read_lag(rules, offsets, PersistentLagMemory())
    second, memory = read_lag(rules, offsets, memory)
    moved = {**offsets, ("t", 0): PartitionOffsets(100, 60)}
    third, _ = read_lag(rules, moved, memory)

    assert (first.metric, second.metric, third.metric) == (20, 0, 20)
    assert first.is_active
    assert second.is_active


def test_commits_ahead_of_the_end_make_the_total_negative() -> None:
    """A recreated topic gives a lag below zero, which is not clamped here."""
    reading, _ = read_lag(trigger(), {("t", 0): PartitionOffsets(5, 9)}, PersistentLagMemory())

    assert (reading.metric, reading.is_active) == (-4, False)


def test_activation_is_strictly_above_its_threshold() -> None:
    """Lag equal to activationLagThreshold does not activate."""
    rules = trigger(activationLagThreshold="10")

    assert not reading_of(rules, [10]).is_active
    assert reading_of(rules, [11]).is_active


def test_an_unknown_offset_is_no_lag_at_all() -> None:
    """Lag is None where an offset is unknown, never zero."""
    assert PartitionOffsets(end=None, committed=3).lag_records is None
    assert PartitionOffsets(end=3, committed=None).lag_records is None
    assert PartitionOffsets(end=3, committed=3).lag_records == 0


@given(
    lags=st.lists(st.integers(0, 10_000), min_size=1, max_size=40),
    threshold=st.integers(1, 500),
)
def test_the_metric_never_asks_for_more_than_one_pod_above_the_partitions(
    lags: list[int], threshold: int
) -> None:
    """Whatever the lag, ceil(metric / threshold) stays at or below partitions + 1."""
    reading = reading_of(trigger(lagThreshold=str(threshold)), lags)

    assert math.ceil(reading.metric / threshold) <= len(lags) + 1


@given(lags=st.lists(st.integers(0, 10_000), min_size=1, max_size=40))
def test_even_distribution_always_divides_the_partitions(lags: list[int]) -> None:
    """The pods asked for share the partitions without a rest."""
    reading = reading_of(trigger(ensureEvenDistributionOfPartitions="true"), lags)

    assert reading.metric % 10 == 0
    assert len(lags) % (reading.metric // 10) == 0
