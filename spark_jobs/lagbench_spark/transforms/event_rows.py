"""Decode the fixed-size events of the log, a whole Arrow batch at a time.

No record in the log ends the job: a record of another size keeps its place and its size, and the
accounting counts it (``transforms/foreign.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from lagbench.shared_with_spark.event import EVENT_BYTES, EVENT_DTYPE, PAYLOAD_BYTES

# The seeded payload carries no identity: 28 of 256 bytes go to Python.
_HEADER_BYTES = EVENT_BYTES - PAYLOAD_BYTES
_HEADER_DTYPE = np.dtype([field for field in EVENT_DTYPE.descr if field[0] != "payload"])
_DECODED = "partition int, offset long, seq long, entity_id long, planned_offset_ns long, logged_at long, producer_id int, size_bytes int"  # noqa: E501 - one DDL string
_TIMESTAMP_NS = 1000  # Spark's timestamps count microseconds


def decode_events(records: DataFrame, stream_started_at: int | None) -> DataFrame:
    """Turn records of Spark's Kafka source into rows of ``schemas.EVENTS``."""
    header = F.substring("value", 1, _HEADER_BYTES).alias("header")
    size = F.octet_length("value").alias("size")
    logged_at = (F.unix_micros("timestamp") * _TIMESTAMP_NS).alias("logged_at")
    decoded = records.select("partition", "offset", logged_at, size, header).mapInArrow(
        _decode_batches, _DECODED
    )
    return decoded.select(
        "partition",
        "offset",
        "seq",
        "entity_id",
        "planned_offset_ns",
        planned_at(stream_started_at).alias("planned_at"),
        "logged_at",
        "producer_id",
        "size_bytes",
    )


def planned_at(stream_started_at: int | None) -> Column:
    """Return the planned instant; null if the stream's start is unknown.

    Also null if it is out of range: the planned offset of a foreign record may be any number.
    """
    if stream_started_at is None:
        return F.lit(None).cast(T.LongType())
    return F.try_add(F.col("planned_offset_ns"), F.lit(stream_started_at))


def _decode_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sizes = batch.column("size")
        is_event = pc.fill_null(pc.equal(sizes, EVENT_BYTES), fill_value=False)
        is_other = pc.invert(is_event).to_numpy(zero_copy_only=False)
        headers = np.zeros(batch.num_rows, _HEADER_DTYPE)
        found = (
            batch.column("header").filter(is_event) if is_other.any() else batch.column("header")
        )
        if len(found):  # a batch with only strangers has no buffer
            headers[~is_other] = np.frombuffer(_joined(found), dtype=_HEADER_DTYPE)
        yield pa.RecordBatch.from_pydict(
            {
                "partition": batch.column("partition"),
                "offset": batch.column("offset"),
                "seq": pa.array(headers["seq"].astype(np.int64), mask=is_other),
                "entity_id": pa.array(headers["entity_id"].astype(np.int64), mask=is_other),
                "planned_offset_ns": pa.array(
                    headers["planned_offset_ns"].astype(np.int64), mask=is_other
                ),
                "logged_at": batch.column("logged_at"),
                "producer_id": pa.array(headers["producer_id"].astype(np.int32), mask=is_other),
                "size_bytes": sizes,
            }
        )


def _joined(column: pa.Array) -> memoryview:
    """Return the values of a binary column, which are contiguous in one buffer."""
    _, offsets, data = column.buffers()
    width = np.dtype(np.int64 if pa.types.is_large_binary(column.type) else np.int32)
    bounds = np.frombuffer(offsets, dtype=width)[column.offset : column.offset + len(column) + 1]
    return memoryview(data)[int(bounds[0]) : int(bounds[-1])]
