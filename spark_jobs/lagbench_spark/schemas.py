"""Schemas of the tables in a run folder, one comment per field (unit, nullable, example).

Instants are unix nanoseconds. A column is nullable only where a missing value has a meaning.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the name that Spark's users know
from pyspark.sql.pandas.types import from_arrow_schema

_INT, _LONG, _TEXT, _REAL = pa.int32(), pa.int64(), pa.string(), pa.float64()


def spark_schema(table: pa.Schema) -> T.StructType:
    """Return the schema in the form of Spark."""
    return from_arrow_schema(table)


def _table(*fields: tuple[str, pa.DataType] | tuple[str, pa.DataType, str]) -> pa.Schema:
    return pa.schema([pa.field(*field[:2], nullable=len(field) > 2) for field in fields])


EVENTS = _table(
    ("partition", _INT),  # of the events topic, 7
    ("offset", _LONG),  # in the partition, 10482
    ("seq", _LONG, "null"),  # 0, 1, 2 … per producer, 125003; null: it has no identity
    ("entity_id", _LONG, "null"),  # also the record's key, 4711; null as above
    ("planned_offset_ns", _LONG, "null"),  # from the stream's start, 12500000000; as above
    ("planned_at", _LONG, "null"),  # unix ns; null: as above, or the start is not known
    ("logged_at", _LONG),  # the record's timestamp, unix ns (exact to 1 ms)
    ("producer_id", _INT, "null"),  # 0; null: it has no identity
    ("size_bytes", _INT, "null"),  # of the value, 256 of own events; null: it has no value
)
PROCESSED = _table(
    ("partition", _INT, "null"),  # of the events topic, 7
    ("offset", _LONG, "null"),  # of the message in that partition, 10482
    ("seq", _LONG, "null"),  # as the pod read it from the message, 125003
    ("entity_id", _LONG, "null"),  # as the pod read it, 4711
    ("planned_at", _LONG, "null"),  # unix ns; null: no stream_started record was found
    ("started_at", _LONG, "null"),  # the pod began the downstream write, unix ns
    ("done_at", _LONG, "null"),  # the downstream write returned, unix ns
    ("pod", _TEXT, "null"),  # consumer-7d9c5b-x2x9p
    ("member_id", _TEXT, "null"),  # of the consumer group, rdkafka-0c5e…
    ("ledger_partition", _INT),  # its place in the ledger, 3
    ("ledger_offset", _LONG),  # one per finished batch, 88
    ("failed_attempts", _INT, "null"),  # given up after 3; null: processed
    ("foreign", _TEXT, "null"),  # why it is no ledger record: all above is null then
)
TELEMETRY = _table(
    ("at", _LONG, "null"),  # unix ns at the source; null: the record is no JSON object
    ("source", _TEXT, "null"),  # pod or component, recorder-5c9f8-kk2lp; null as above
    ("kind", _TEXT, "null"),  # lag_sample; null as above
    ("record", _TEXT),  # the JSON as it was sent; empty: a record without a value
    ("partition", _INT, "null"),  # of the telemetry topic, 0
    ("offset", _LONG, "null"),  # as above, 4711
)
BAD_MESSAGES = _table(
    ("class", _TEXT),  # lost, duplicated, … (lagbench.shared_with_spark.message_classes)
    ("partition", _INT, "null"),  # null: not_in_log has none
    ("offset", _LONG, "null"),  # null: not_in_log has none
    ("seq", _LONG, "null"),  # 125003
    ("entity_id", _LONG, "null"),  # null where the message itself was never seen
    ("pod", _TEXT, "null"),  # the pod at fault; null: none is known
    ("other_pod", _TEXT, "null"),  # the other party (first to process, next owner); null: none
    ("at", _LONG, "null"),  # when it happened, unix ns; null: a loss has no instant
    ("cause", _TEXT),  # rebalance, sigterm, killed, commit or none
    ("cause_at", _LONG, "null"),  # instant of the cause, unix ns; null: cause none
    ("cause_pod", _TEXT, "null"),  # pod of the cause; null: cause none
    ("detail", _TEXT),  # one sentence for a person
)
MOVED_KEYS = _table(
    ("entity_id", _LONG),  # 4711
    ("partitions", pa.list_(_INT)),  # in their order, [3, 15]
    ("messages", _LONG),  # of the key in the log
    ("overtaken", _LONG),  # begun after a later one of the key elsewhere
    ("overtaken_in_doubt", _LONG),  # as above, too close for two clocks to decide
    ("most_seconds", _REAL, "null"),  # by which one was overtaken; null: none was
)
TIMELINE = _table(
    ("at", _LONG),  # start of the 100 ms bin, unix ns
    ("offered", _LONG),  # messages planned in the bin
    ("processed", _LONG),  # messages done in the bin for the first time
    ("processed_again", _LONG),  # further processings done in the bin
)
TIMELINE_BY_POD = _table(
    ("at", _LONG),  # start of the 100 ms bin, unix ns
    ("pod", _TEXT),  # consumer-7d9c5b-x2x9p
    ("processed", _LONG),  # everything the pod finished in the bin, repeats included
)
TIMELINE_BY_PARTITION = _table(
    ("partition", _INT),  # of the events topic, 7
    ("at", _LONG),  # start of the 100 ms bin, unix ns; only bins with messages
    ("offered", _LONG),  # messages planned in the bin
    ("processed", _LONG),  # messages done in the bin for the first time
    ("lost", _LONG),  # of those planned in the bin
)
PARTITION_GAPS = _table(
    ("partition", _INT),  # of the events topic, 7
    ("from_pod", _TEXT),  # the owner before
    ("to_pod", _TEXT),  # the owner after
    ("last_done_at", _LONG),  # last message done by from_pod, unix ns
    ("next_done_at", _LONG),  # first message done by to_pod, unix ns
    ("gap_seconds", _REAL),  # between the two; negative: both worked at once
)
LAG = _table(
    ("at", _LONG),  # of the reading, unix ns
    ("partition", _INT),  # of the events topic, 7
    ("end_offset", _LONG),  # next offset that the log would give
    ("committed", _LONG, "null"),  # next offset to read; null: the group has committed none
    ("lag", _LONG, "null"),  # messages; null: unknown without a commit
)
REPLICAS = _table(
    ("at", _LONG),  # of the reading, unix ns
    ("spec", _INT),  # replicas wanted
    ("current", _INT),  # pods that exist
    ("ready", _INT),  # pods that pass their readiness probe
)
LATENCY = _table(
    ("at", _LONG),  # start of the 1 s bin of done_at, unix ns
    ("count", _LONG),  # processings in the bin, repeats included
    ("p50_seconds", _REAL),  # of done_at - planned_at
    ("p95_seconds", _REAL),  # as above
    ("p99_seconds", _REAL),  # as above
    ("max_seconds", _REAL),  # as above
)
