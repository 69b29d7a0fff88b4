"""Schemas of the tables in a run folder, one comment per field (unit, nullable, example).

Instants are unix nanoseconds. A column is nullable only where a missing value has a meaning.
"""

from __future__ import annotations

from pyspark.sql import types as T  # noqa: N812 - the name that Spark's users know


def _required(name: str, kind: T.DataType) -> T.StructField:
    return T.StructField(name, kind, nullable=False)


def _optional(name: str, kind: T.DataType) -> T.StructField:
    return T.StructField(name, kind, nullable=True)


_INT, _LONG, _TEXT, _REAL = T.IntegerType(), T.LongType(), T.StringType(), T.DoubleType()

EVENTS = T.StructType(
    [
        _required("partition", _INT),  # of the events topic, 7
        _required("offset", _LONG),  # in the partition, 10482
        _optional("seq", _LONG),  # 0, 1, 2 … per producer, 125003; null: it has no identity
        _optional("entity_id", _LONG),  # also the record's key, 4711; null as above
        _optional("planned_offset_ns", _LONG),  # from the stream's start, 12500000000; as above
        _optional("planned_at", _LONG),  # unix ns; null: as above, or the start is not known
        _required("logged_at", _LONG),  # the record's timestamp, unix ns (exact to 1 ms)
        _optional("producer_id", _INT),  # 0; null: it has no identity
        _optional(
            "size_bytes", _INT
        ),  # of the value, 256 of own events; null: none, or an older run
    ]
)

PROCESSED = T.StructType(
    [
        _optional("partition", _INT),  # of the events topic, 7
        _optional("offset", _LONG),  # of the message in that partition, 10482
        _optional("seq", _LONG),  # as the pod read it from the message, 125003
        _optional("entity_id", _LONG),  # as the pod read it, 4711
        _optional("planned_at", _LONG),  # unix ns; null: no stream_started record was found
        _optional("started_at", _LONG),  # the pod began the downstream write, unix ns
        _optional("done_at", _LONG),  # the downstream write returned, unix ns
        _optional("pod", _TEXT),  # consumer-7d9c5b-x2x9p
        _optional("member_id", _TEXT),  # of the consumer group, rdkafka-0c5e…
        _required("ledger_partition", _INT),  # its place in the ledger, 3
        _required("ledger_offset", _LONG),  # one per finished batch, 88
        _optional("failed_attempts", _INT),  # given up after 3; null: processed, or an older run
        _optional("foreign", _TEXT),  # why it is no ledger record: all above is null then
    ]
)

TELEMETRY = T.StructType(
    [
        _optional("at", _LONG),  # unix ns at the source; null: the record is no JSON object
        _optional("source", _TEXT),  # pod or component, recorder-5c9f8-kk2lp; null as above
        _optional("kind", _TEXT),  # lag_sample; null as above
        _required("record", _TEXT),  # the JSON as it was sent; empty: a record without a value
        _optional("partition", _INT),  # of the telemetry topic, 0; null: an older run
        _optional("offset", _LONG),  # as above, 4711
    ]
)

BAD_MESSAGES = T.StructType(
    [
        _required(
            "class", _TEXT
        ),  # lost, duplicated, … (lagbench.shared_with_spark.message_classes)
        _optional("partition", _INT),  # null: not_in_log has none
        _optional("offset", _LONG),  # null: not_in_log has none
        _optional("seq", _LONG),  # 125003
        _optional("entity_id", _LONG),  # null where the message itself was never seen
        _optional("pod", _TEXT),  # the pod at fault; null: none is known
        _optional("other_pod", _TEXT),  # the other party (first to process, next owner); null: none
        _optional("at", _LONG),  # when it happened, unix ns; null: a loss has no instant
        _required("cause", _TEXT),  # rebalance, sigterm, killed, commit or none
        _optional("cause_at", _LONG),  # instant of the cause, unix ns; null: cause none
        _optional("cause_pod", _TEXT),  # pod of the cause; null: cause none
        _required("detail", _TEXT),  # one sentence for a person
    ]
)

MOVED_KEYS = T.StructType(
    [
        _required("entity_id", _LONG),  # 4711
        _required("partitions", T.ArrayType(_INT)),  # in their order, [3, 15]
        _required("messages", _LONG),  # of the key in the log
        _required("overtaken", _LONG),  # begun after a later one of the key elsewhere
        _required("overtaken_in_doubt", _LONG),  # as above, too close for two clocks to decide
        _optional("most_seconds", _REAL),  # by which one was overtaken; null: none was
    ]
)

TIMELINE = T.StructType(
    [
        _required("at", _LONG),  # start of the 100 ms bin, unix ns
        _required("offered", _LONG),  # messages planned in the bin
        _required("processed", _LONG),  # messages done in the bin for the first time
        _required("processed_again", _LONG),  # further processings done in the bin
    ]
)

TIMELINE_BY_POD = T.StructType(
    [
        _required("at", _LONG),  # start of the 100 ms bin, unix ns
        _required("pod", _TEXT),  # consumer-7d9c5b-x2x9p
        _required("processed", _LONG),  # everything the pod finished in the bin, repeats included
    ]
)

TIMELINE_BY_PARTITION = T.StructType(
    [
        _required("partition", _INT),  # of the events topic, 7
        _required("at", _LONG),  # start of the 100 ms bin, unix ns; only bins with messages
        _required("offered", _LONG),  # messages planned in the bin
        _required("processed", _LONG),  # messages done in the bin for the first time
        _required("lost", _LONG),  # of those planned in the bin
    ]
)

PARTITION_GAPS = T.StructType(
    [
        _required("partition", _INT),  # of the events topic, 7
        _required("from_pod", _TEXT),  # the owner before
        _required("to_pod", _TEXT),  # the owner after
        _required("last_done_at", _LONG),  # last message done by from_pod, unix ns
        _required("next_done_at", _LONG),  # first message done by to_pod, unix ns
        _required("gap_seconds", _REAL),  # between the two; negative: both worked at once
    ]
)

LAG = T.StructType(
    [
        _required("at", _LONG),  # of the reading, unix ns
        _required("partition", _INT),  # of the events topic, 7
        _required("end_offset", _LONG),  # next offset that the log would give
        _optional("committed", _LONG),  # next offset to read; null: the group has committed none
        _optional("lag", _LONG),  # messages; null: unknown without a commit
    ]
)

REPLICAS = T.StructType(
    [
        _required("at", _LONG),  # of the reading, unix ns
        _required("spec", _INT),  # replicas wanted
        _required("current", _INT),  # pods that exist
        _required("ready", _INT),  # pods that pass their readiness probe
    ]
)

LATENCY = T.StructType(
    [
        _required("at", _LONG),  # start of the 1 s bin of done_at, unix ns
        _required("count", _LONG),  # processings in the bin, repeats included
        _required("p50_seconds", _REAL),  # of done_at - planned_at
        _required("p95_seconds", _REAL),  # as above
        _required("p99_seconds", _REAL),  # as above
        _required("max_seconds", _REAL),  # as above
    ]
)
