"""Decode the records of a run's topics, a whole Arrow batch at a time.

No record ends the job: one of the log without an identity keeps its place and its size, one of the
ledger that is none becomes a row with its place and the reason, and the accounting counts them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from lagbench.consumer_ledger import LENGTH_BYTES, MAGIC
from lagbench.core.ownership.holdings import OWNER_PREFIX
from lagbench.shared_with_spark.event import (
    EVENT_BYTES,
    IDENTITY_BYTES,
    IDENTITY_DTYPE,
    IDENTITY_HEADER,
)
from lagbench_spark import schemas

_TIMESTAMP_NS = 1000  # Spark's timestamps count microseconds
_NUMBERS = ("offset", "seq", "entity_id", "planned_offset_ns", "started_at", "done_at")
_FAILED = "failed_attempts"
_NOWHERE = -1

Ints = npt.NDArray[np.int64]


def decode_telemetry(records: DataFrame) -> DataFrame:
    """Turn records of Spark's Kafka source into rows of ``schemas.TELEMETRY``.

    A record that is not JSON keeps its text, as far as it is text; at, source and kind are null.
    """
    text = F.coalesce(F.make_valid_utf8(F.col("value").cast("string")), F.lit(""))
    head = F.from_json(text, "at bigint, source string, kind string").alias("head")
    rows = records.select(head, text.alias("record"), "partition", "offset")
    return rows.select("head.at", "head.source", "head.kind", "record", "partition", "offset")


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
        found = batch.column("header").cast(pa.binary(IDENTITY_BYTES))
        is_other = found.is_null().to_numpy(zero_copy_only=False)
        identities = np.frombuffer(found.buffers()[1], IDENTITY_DTYPE)[found.offset :]
        planned = identities["planned_offset_ns"]
        columns: dict[str, Any] = {
            "partition": batch.column("partition"),
            "offset": batch.column("offset"),
            "seq": pa.array(identities["seq"].astype(np.int64), mask=is_other),
            "entity_id": pa.array(identities["entity_id"].astype(np.int64), mask=is_other),
            "planned_offset_ns": pa.array(planned, mask=is_other),
            "planned_at": _planned_at(planned, is_other, stream_started_at),
            "logged_at": batch.column("logged_at"),
            "producer_id": pa.array(identities["producer_id"].astype(np.int32), mask=is_other),
            "size_bytes": batch.column("size"),
        }
        yield pa.RecordBatch.from_pydict(columns)


def _planned_at(
    offset_ns: Ints, is_unknown: npt.NDArray[np.bool_], stream_started_at: int | None
) -> pa.Array:
    """Return the planned instants; null if the stream's start is unknown, or out of range.

    The planned offset of a foreign record may be any number.
    """
    if stream_started_at is None:
        return pa.nulls(len(offset_ns), pa.int64())
    instants = offset_ns + np.int64(stream_started_at)  # wraps around
    is_wrapped = (instants < offset_ns) == (stream_started_at >= 0)
    return pa.array(instants, mask=is_unknown | is_wrapped)


class _Record(NamedTuple):
    """A record of the ledger: its rows have the columns ``_NUMBERS``."""

    numbers: Ints
    failed_attempts: npt.NDArray[np.int32]  # 0: not given up
    partition: int | None = None
    pod: str | None = None
    member_id: str | None = None
    foreign: str | None = None


def decode_ledger(
    batches: Iterable[pa.RecordBatch], stream_started_at: int | None
) -> Iterator[pa.RecordBatch]:
    """Turn partition, offset and value of ledger records into rows of ``schemas.PROCESSED``."""
    for batch in batches:
        records = [_record(value.as_buffer() or pa.py_buffer(b"")) for value in batch["value"]]
        if not records:
            continue
        row = np.repeat(np.arange(len(records)), [len(record.numbers) for record in records])
        numbers = np.concatenate([record.numbers for record in records])
        attempts = np.concatenate([record.failed_attempts for record in records])
        is_foreign = np.array([record.foreign is not None for record in records])[row]
        labels = {
            name: pa.array([getattr(record, name) for record in records], kind).take(row)
            for name, kind in (
                ("partition", pa.int32()),
                *((label, pa.string()) for label in ("pod", "member_id", "foreign")),
            )
        }
        columns = {
            **{
                name: pa.array(np.ascontiguousarray(numbers[:, place]), mask=is_foreign)
                for place, name in enumerate(_NUMBERS)
            },
            **labels,
            "planned_at": _planned_at(numbers[:, 3], is_foreign, stream_started_at),
            "ledger_partition": batch["partition"].take(pa.array(row)),
            "ledger_offset": batch["offset"].take(pa.array(row)),
            _FAILED: pa.array(attempts, mask=attempts <= 0),
        }
        names = schemas.PROCESSED.names
        yield pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)


def _record(value: pa.Buffer) -> _Record:
    """Return the rows of a ledger record; one row with the reason if it is none."""
    try:
        if bytes(value[: len(MAGIC)]) == MAGIC:
            return _plain_record(value)
        return _arrow_record(value)
    except Exception as error:  # pyarrow and others may raise any
        reason = f"{value.size} bytes, not a ledger record: {type(error).__name__}"
        nothing = np.zeros((1, len(_NUMBERS)), np.int64)
        return _Record(nothing, np.zeros(1, np.int32), foreign=reason)


def _arrow_record(value: pa.Buffer) -> _Record:
    with pa.ipc.open_stream(value) as stream:
        batch = stream.read_next_batch()
        metadata = {key.decode(): text.decode() for key, text in stream.schema.metadata.items()}
    batch.validate(full=True)
    if metadata["version"] != "1":
        raise ValueError(f"version {metadata['version']!r} is not '1'")
    columns = [batch.column(name).cast(pa.int64()) for name in _NUMBERS]
    if any(column.null_count for column in columns):
        raise ValueError("a ledger record leaves no number out")
    attempts = np.zeros(batch.num_rows, np.int32)
    if _FAILED in batch.schema.names:
        attempts = batch.column(_FAILED).cast(pa.int32()).fill_null(0).to_numpy()
    return _Record(
        np.column_stack([column.to_numpy() for column in columns]),
        attempts,
        int(metadata["partition"]),
        metadata["pod"],
        metadata["member_id"],
    )


def _plain_record(value: pa.Buffer) -> _Record:
    """Return a record that a consumer wrote with ``lagbench.consumer_ledger``."""
    content = memoryview(value)[len(MAGIC) :]
    rows_at = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "little")
    header = json.loads(bytes(content[LENGTH_BYTES:rows_at]))
    numbers = np.frombuffer(content[rows_at:], dtype="<i8").reshape(-1, len(_NUMBERS))
    return _Record(
        numbers,
        np.zeros(len(numbers), np.int32),
        int(header["partition"]),
        str(header["pod"]),
        str(header["member_id"]),
    )


def output_rows(records: DataFrame, events: DataFrame, *, run_id: str | None) -> DataFrame:
    """Return the records of a consumer's output topic as rows of ``schemas.PROCESSED``.

    The identity is in the header that the consumer passed on. The instant is that of the broker,
    which appended the record; records of one millisecond are in the order of their offsets. The pod
    is not known: each partition of the output topic stands for one owner, because an order exists
    only there. A record without the run's identity has only its place and the reason. One of a
    message that the log does not hold is at partition and offset -1.

    :param records: of Spark's Kafka source, with headers.
    :param events: rows of ``schemas.EVENTS``.
    """
    decode = partial(decode_events, stream_started_at=None)
    identities = event_headers(records, run_id=run_id)
    written = identities.mapInArrow(decode, schemas.spark_schema(schemas.EVENTS)).select(
        "seq",
        "entity_id",
        "size_bytes",
        "logged_at",
        F.col("partition").alias("ledger_partition"),
        F.col("offset").alias("ledger_offset"),
    )
    known = events.filter(F.col("seq").isNotNull())
    place = F.min(F.struct("partition", "offset", "planned_at")).alias("place")
    joined = written.join(known.groupBy("seq").agg(place), on="seq", how="left")
    same_instant = Window.partitionBy("ledger_partition", "logged_at").orderBy("ledger_offset")
    is_of_run = F.col("seq").isNotNull()
    at = F.when(is_of_run, F.col("logged_at") + F.row_number().over(same_instant) - 1)
    size = F.coalesce(F.col("size_bytes").cast("string"), F.lit("no"))
    reason = F.concat(F.lit("a value of "), size, F.lit(" bytes, without the run's header"))
    owner = F.concat(F.lit(OWNER_PREFIX), F.col("ledger_partition").cast("string"))
    nowhere = F.when(is_of_run, F.lit(_NOWHERE))
    return joined.select(
        F.coalesce("place.partition", nowhere).alias("partition"),
        F.coalesce("place.offset", nowhere).alias("offset"),
        "seq",
        "entity_id",
        F.col("place.planned_at").alias("planned_at"),
        at.alias("started_at"),
        at.alias("done_at"),
        F.when(is_of_run, owner).alias("pod"),
        F.when(is_of_run, F.lit("")).alias("member_id"),
        "ledger_partition",
        "ledger_offset",
        F.lit(None).cast("int").alias(_FAILED),
        F.when(~is_of_run, reason).alias("foreign"),
    )
