"""The simulator's lag rules over arrays against the rules that run live."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.triggers import read_trigger

from lagbench.core.keda.loop.kafka_lag import PartitionOffsets, PersistentLagMemory, read_lag
from lagbench.core.keda.triggers.kafka import KafkaTrigger
from lagbench.core.simulation.lag_arrays import TopicOffsets, read_lag_arrays

FLAGS = (
    "allowIdleConsumers",
    "excludePersistentLag",
    "scaleToZeroOnInvalidOffset",
    "limitToPartitionsWithLag",
    "ensureEvenDistributionOfPartitions",
)


def trigger(flags: frozenset[str], policy: str, threshold: int, activation: int) -> KafkaTrigger:
    """Return a trigger; of flags that exclude each other the later one is dropped."""
    if "limitToPartitionsWithLag" in flags:
        flags -= {"allowIdleConsumers", "ensureEvenDistributionOfPartitions"}
    metadata = {
        "bootstrapServers": "b:9092",
        "consumerGroup": "g",
        "topic": "t",
        "lagThreshold": str(threshold),
        "activationLagThreshold": str(activation),
        "offsetResetPolicy": policy,
        **dict.fromkeys(flags, "true"),
    }
    return read_trigger("kafka", metadata)


offset = st.integers(-1, 60)
polls = st.integers(1, 8).flatmap(
    lambda count: st.lists(
        st.lists(st.tuples(offset, offset, offset), min_size=count, max_size=count),
        min_size=1,
        max_size=4,
    )
)


@settings(max_examples=100)
@given(
    flags=st.frozensets(st.sampled_from(FLAGS)),
    policy=st.sampled_from(("latest", "earliest")),
    threshold=st.integers(1, 30),
    activation=st.integers(0, 40),
    polls=polls,
)
def test_arrays_say_what_the_live_rules_say(
    flags: frozenset[str],
    policy: str,
    threshold: int,
    activation: int,
    polls: list[list[tuple[int, int, int]]],
) -> None:
    """Metric and activity are equal at every poll, whatever the options and unknown offsets."""
    rules = trigger(flags, policy, threshold, activation)
    memory, remembered = PersistentLagMemory(), None

    for rows in polls:
        offsets = {
            ("t", number): PartitionOffsets(*(None if value < 0 else value for value in row))
            for number, row in enumerate(rows)
        }
        reading, memory = read_lag(rules, offsets, memory)
        columns = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
        metric, is_active, remembered = read_lag_arrays(rules, TopicOffsets(*columns), remembered)
        assert (metric, is_active) == (reading.metric, reading.is_active)
