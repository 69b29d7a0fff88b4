"""Decode the consumers' ledger: Arrow record batches inside Kafka records.

No record in the topic ends the job: a record that is not a ledger record becomes one row with only
its place and the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lagbench.consumer_ledger import LENGTH_BYTES, MAGIC
from lagbench_spark import schemas
from lagbench_spark.transforms.event_rows import planned_at

_VERSION = b"1"
_NO_BYTES = pa.py_buffer(b"")  # of a record without a value
_ROWS_PER_OUTPUT = 65_536
_NUMBERS = ("offset", "seq", "entity_id", "planned_offset_ns", "started_at", "done_at")
_FAILED = "failed_attempts"
_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        *((name, pa.int64()) for name in _NUMBERS),
        ("pod", pa.string()),
        ("member_id", pa.string()),
        ("ledger_partition", pa.int32()),
        ("ledger_offset", pa.int64()),
        ("failed_attempts", pa.int32()),
        ("foreign", pa.string()),
    ]
)


def decode_ledger(
    batches: Iterable[pa.RecordBatch], stream_started_at: int | None
) -> Iterator[pa.RecordBatch]:
    """Turn partition, offset and value of ledger records into rows of ``schemas.PROCESSED``."""
    for rows in _joined(batches):
        planned = planned_at(rows.column("planned_offset_ns"), stream_started_at)
        yield rows.append_column("planned_at", planned).select(schemas.PROCESSED.names)


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the rows of all records, in batches of about ``_ROWS_PER_OUTPUT``."""
    waiting: list[pa.RecordBatch] = []
    waiting_rows = 0
    for batch in batches:
        partitions = batch.column("partition").to_pylist()
        offsets = batch.column("offset").to_pylist()
        for partition, offset, value in zip(
            partitions, offsets, batch.column("value"), strict=True
        ):
            rows = _read_record(partition, offset, value.as_buffer() or _NO_BYTES)
            waiting.append(rows)
            waiting_rows += rows.num_rows
            if waiting_rows >= _ROWS_PER_OUTPUT:
                yield pa.concat_batches(waiting)
                waiting, waiting_rows = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def _read_record(ledger_partition: int, ledger_offset: int, value: pa.Buffer) -> pa.RecordBatch:
    """Return the rows of one ledger record, with its metadata as columns."""
    try:
        columns = _columns(value)
    except Exception as error:
        columns = _stranger(f"{value.size} bytes, not a ledger record: {type(error).__name__}")
    size = len(columns["offset"])
    places = {
        "ledger_partition": pa.repeat(pa.scalar(ledger_partition, pa.int32()), size),
        "ledger_offset": pa.repeat(pa.scalar(ledger_offset, pa.int64()), size),
    }
    return pa.RecordBatch.from_pydict({**columns, **places}, schema=_SCHEMA)


def _columns(value: pa.Buffer) -> dict[str, pa.Array]:
    """Return the rows of a ledger record; pyarrow and others may raise any error."""
    if bytes(value[: len(MAGIC)]) == MAGIC:
        return _plain_columns(value)
    with pa.ipc.open_stream(value) as stream:
        batch = stream.read_next_batch()
        metadata = stream.schema.metadata or {}
    batch.validate(full=True)
    if metadata[b"version"] != _VERSION:
        raise ValueError(f"version {metadata[b'version']!r} is not {_VERSION!r}")
    numbers = {name: batch.column(name).cast(pa.int64()) for name in _NUMBERS}
    if any(column.null_count for column in numbers.values()):
        raise ValueError("a ledger record leaves no number out")
    size = batch.num_rows
    labels = {name: metadata[name.encode()].decode() for name in ("pod", "member_id")}
    return {
        "partition": pa.repeat(pa.scalar(int(metadata[b"partition"]), pa.int32()), size),
        **numbers,
        **{name: pa.repeat(pa.scalar(label), size) for name, label in labels.items()},
        "failed_attempts": _failed_attempts(batch),
        "foreign": pa.nulls(size, pa.string()),
    }


def _plain_columns(value: pa.Buffer) -> dict[str, pa.Array]:
    """Return the rows of a record that a consumer wrote with ``lagbench.consumer_ledger``."""
    content = memoryview(value)[len(MAGIC) :]
    length = int.from_bytes(content[:LENGTH_BYTES], "little")
    rows_at = LENGTH_BYTES + length
    header = json.loads(bytes(content[LENGTH_BYTES:rows_at]))
    table = np.frombuffer(content[rows_at:], dtype="<i8").reshape(-1, len(_NUMBERS))
    size = len(table)
    return {
        "partition": pa.repeat(pa.scalar(int(header["partition"]), pa.int32()), size),
        **{name: pa.array(table[:, place].copy()) for place, name in enumerate(_NUMBERS)},
        **{name: pa.repeat(pa.scalar(str(header[name])), size) for name in ("pod", "member_id")},
        "failed_attempts": pa.nulls(size, pa.int32()),
        "foreign": pa.nulls(size, pa.string()),
    }


def _failed_attempts(batch: pa.RecordBatch) -> pa.Array:
    """Return the attempts of messages that were given up, null for the others."""
    if _FAILED not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.int32())
    attempts = batch.column(_FAILED).cast(pa.int32())
    nothing = pa.scalar(None, pa.int32())
    return pc.if_else(pc.greater(attempts, 0), attempts, nothing)


def _stranger(reason: str) -> dict[str, pa.Array]:
    """Return one row with only the reason why it is not a ledger row."""
    nothing = {field.name: pa.nulls(1, field.type) for field in _SCHEMA}
    return {**nothing, "foreign": pa.array([reason])}
