"""Generate the load of a scenario: rates, spikes, keys, and the bytes of each event."""

from lagbench.core.scenario.stream.cost_draws import process_ns
from lagbench.core.scenario.stream.event_stream import (
    BLOCK_EVENTS,
    EventBlock,
    EventStream,
    StreamDigest,
)
from lagbench.core.scenario.stream.key_skew import (
    partition_of_key,
    partition_shares,
    planned_partitions,
)
from lagbench.core.scenario.stream.poisoned import (
    failing_seqs,
    is_poisoned,
    poisoned_key,
    poisoned_seqs,
)
from lagbench.core.scenario.stream.profile import NS, OfferedLoad, offered_load
from lagbench.core.scenario.stream.spikes import Spike, load_spikes
from lagbench.core.scenario.stream.tail import (
    RUN_TAIL_FIELD,
    TAIL_MARGIN_SECONDS,
    Tail,
    resting_lag_records,
    resting_replicas,
    tail_of,
    tail_of_run,
)
from lagbench.core.scenario.stream.topic_shares import sample_shares, topic_shares

__all__ = [
    "BLOCK_EVENTS",
    "NS",
    "RUN_TAIL_FIELD",
    "TAIL_MARGIN_SECONDS",
    "EventBlock",
    "EventStream",
    "OfferedLoad",
    "Spike",
    "StreamDigest",
    "Tail",
    "failing_seqs",
    "is_poisoned",
    "load_spikes",
    "offered_load",
    "partition_of_key",
    "partition_shares",
    "planned_partitions",
    "poisoned_key",
    "poisoned_seqs",
    "process_ns",
    "resting_lag_records",
    "resting_replicas",
    "sample_shares",
    "tail_of",
    "tail_of_run",
    "topic_shares",
]
