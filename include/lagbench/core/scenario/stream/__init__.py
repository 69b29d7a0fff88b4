"""The load that a scenario asks for: rates, spikes, keys, and the bytes of each event."""

from lagbench.core.scenario.stream.event_stream import (
    BLOCK_EVENTS,
    EventBlock,
    EventStream,
    StreamDigest,
)
from lagbench.core.scenario.stream.key_skew import partition_shares, partitions_of
from lagbench.core.scenario.stream.profile import NS, OfferedLoad, offered_load
from lagbench.core.scenario.stream.spikes import SYNC_SECONDS, Spike, load_spikes
from lagbench.core.scenario.stream.tail import Tail, resting_lag_records, resting_replicas, tail_of
from lagbench.shared_with_spark.event import (
    EVENT_BYTES,
    Events,
    concatenate_values,
    decode_events,
    event_values,
    record_keys,
    seq_of_value,
)

__all__ = [
    "BLOCK_EVENTS",
    "EVENT_BYTES",
    "NS",
    "SYNC_SECONDS",
    "EventBlock",
    "EventStream",
    "Events",
    "OfferedLoad",
    "Spike",
    "StreamDigest",
    "Tail",
    "concatenate_values",
    "decode_events",
    "event_values",
    "load_spikes",
    "offered_load",
    "partition_shares",
    "partitions_of",
    "record_keys",
    "resting_lag_records",
    "resting_replicas",
    "seq_of_value",
    "tail_of",
]
