"""Decode the consumers' ledger: Arrow record batches inside Kafka records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from bench_spark.errors import UnreadableRun
from bench_spark.transforms.event_rows import planned_at

_VERSION = b"1"
_NO_BYTES = pa.py_buffer(b"")  # of a record without a value; refused like any other stranger
_ROWS_PER_OUTPUT = 65_536
_DECODED = "partition int, offset long, seq long, entity_id long, planned_offset_ns long, started_at long, done_at long, pod string, member_id string, ledger_partition int, ledger_offset long"  # noqa: E501 - one DDL string
_NUMBERS = ("offset", "seq", "entity_id", "planned_offset_ns", "started_at", "done_at")


def decode_ledger(records: DataFrame, stream_started_at: int | None) -> DataFrame:
    """Turn records of Spark's Kafka source into rows of ``schemas.PROCESSED``."""
    decoded = records.select("partition", "offset", "value").mapInArrow(_decode_batches, _DECODED)
    return decoded.select(
        "partition",
        "offset",
        "seq",
        "entity_id",
        planned_at(stream_started_at).alias("planned_at"),
        "started_at",
        "done_at",
        "pod",
        "member_id",
        "ledger_partition",
        "ledger_offset",
    )


def _decode_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
        with pa.ipc.open_stream(value) as stream:
            batch = stream.read_next_batch()
            metadata = stream.schema.metadata or {}
        if metadata[b"version"] != _VERSION:
            raise UnreadableRun(f"version {metadata[b'version']!r} is not {_VERSION!r}")
        numbers = [batch.column(name).cast(pa.int64()) for name in _NUMBERS]
        labels = (metadata[b"pod"].decode(), metadata[b"member_id"].decode())
        partition = int(metadata[b"partition"])
    except (pa.ArrowException, KeyError, ValueError, StopIteration) as error:
        raise UnreadableRun(
            f"ledger partition {ledger_partition}, offset {ledger_offset} is no ledger record "
            f"({error!r}); one holds an Arrow stream with the columns {', '.join(_NUMBERS)} and "
            "the metadata version, pod, partition and member_id"
        ) from error
    size = batch.num_rows
    columns = [
        pa.repeat(pa.scalar(partition, pa.int32()), size),
        *numbers,
        *(pa.repeat(pa.scalar(label, pa.string()), size) for label in labels),
        pa.repeat(pa.scalar(ledger_partition, pa.int32()), size),
        pa.repeat(pa.scalar(ledger_offset, pa.int64()), size),
    ]
    names = ["partition", *_NUMBERS, "pod", "member_id", "ledger_partition", "ledger_offset"]
    return pa.RecordBatch.from_arrays(columns, names=names)
