"""Decode the identities of the events in the log, a whole Arrow batch at a time.

No record in the log ends the job: one without an identity keeps its place and its size, and the
accounting counts it (``transforms/foreign.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lagbench.shared_with_spark.event import EVENT_BYTES
from lagbench.shared_with_spark.identity import IDENTITY_BYTES, IDENTITY_DTYPE, IDENTITY_HEADER

_TIMESTAMP_NS = 1000  # Spark's timestamps count microseconds


def event_headers(records: DataFrame, *, run_id: str | None = None) -> DataFrame:
    """Return of records of Spark's Kafka source what ``decode_events`` needs.

    The identity is in the value's first bytes, or with a ``run_id`` in a header of each record.
    Of the value no more goes to Python. A record without an identity has null.
    """
    size = F.octet_length("value")
    header = F.when(size == EVENT_BYTES, F.substring("value", 1, IDENTITY_BYTES))
    if run_id is not None:
        of_name = F.filter("headers", lambda found: found["key"] == IDENTITY_HEADER)
        found = F.get(of_name, F.lit(0))["value"]
        of_run = F.octet_length(found) == IDENTITY_BYTES + len(run_id.encode())
        run = F.substring(found, IDENTITY_BYTES + 1, len(run_id.encode()))
        is_of_run = of_run & (run == F.encode(F.lit(run_id), "UTF-8"))
        header = F.when(is_of_run, F.substring(found, 1, IDENTITY_BYTES))
    logged_at = (F.unix_micros("timestamp") * _TIMESTAMP_NS).alias("logged_at")
    return records.select(
        "partition", "offset", logged_at, size.alias("size"), header.alias("header")
    )


def decode_events(
    batches: Iterable[pa.RecordBatch], stream_started_at: int | None
) -> Iterator[pa.RecordBatch]:
    """Turn rows of ``event_headers`` into rows of ``schemas.EVENTS``."""
    for batch in batches:
        sizes = batch.column("size")
        is_event = pc.is_valid(batch.column("header"))
        is_other = pc.invert(is_event).to_numpy(zero_copy_only=False)
        headers = np.zeros(batch.num_rows, IDENTITY_DTYPE)
        found = (
            batch.column("header").filter(is_event) if is_other.any() else batch.column("header")
        )
        if len(found):  # a batch with only strangers has no buffer
            headers[~is_other] = np.frombuffer(_joined(found), dtype=IDENTITY_DTYPE)
        planned_offset_ns = pa.array(headers["planned_offset_ns"].astype(np.int64), mask=is_other)
        yield pa.RecordBatch.from_pydict(
            {
                "partition": batch.column("partition"),
                "offset": batch.column("offset"),
                "seq": pa.array(headers["seq"].astype(np.int64), mask=is_other),
                "entity_id": pa.array(headers["entity_id"].astype(np.int64), mask=is_other),
                "planned_offset_ns": planned_offset_ns,
                "planned_at": planned_at(planned_offset_ns, stream_started_at),
                "logged_at": batch.column("logged_at"),
                "producer_id": pa.array(headers["producer_id"].astype(np.int32), mask=is_other),
                "size_bytes": sizes,
            }
        )


def planned_at(planned_offset_ns: pa.Array, stream_started_at: int | None) -> pa.Array:
    """Return the planned instants (int64); null if the stream's start is unknown.

    Also null if it is out of range: the planned offset of a foreign record may be any number.
    """
    if stream_started_at is None:
        return pa.nulls(len(planned_offset_ns), pa.int64())
    start = pa.scalar(stream_started_at, pa.int64())
    instants = pc.add(planned_offset_ns, start)  # wraps around
    is_above = pc.less(instants, planned_offset_ns)
    is_wrapped = is_above if stream_started_at >= 0 else pc.invert(is_above)
    return pc.if_else(is_wrapped, pa.scalar(None, pa.int64()), instants)


def _joined(column: pa.Array) -> memoryview:
    """Return the values of a binary column, which are contiguous in one buffer."""
    _, offsets, data = column.buffers()
    width = np.dtype(np.int64 if pa.types.is_large_binary(column.type) else np.int32)
    bounds = np.frombuffer(offsets, dtype=width)[column.offset : column.offset + len(column) + 1]
    return memoryview(data)[int(bounds[0]) : int(bounds[-1])]
