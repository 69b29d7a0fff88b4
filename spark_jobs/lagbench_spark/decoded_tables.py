"""Write the batches that a decoder makes as a table, in the Python that decoded them.

A way back through the JVM would cost more than decoding and writing together: there each value is
handled by itself, here a column at a time. An object store has no file for Python to write, so
Spark writes there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from lagbench_spark.run_folder import RunFolder, file_count
from lagbench_spark.summaries import SUMMARY_ROWS, Summary, Tables, packed, summarised, united

# Rows of one row group: 25 MB of columns in memory until they are written.
_ROWS_PER_GROUP = 262_144
_FILE = "file"
# One value for each record of a topic or each partition; other numbers are nearly unique.
_REPEATED = ("partition", "producer_id", "size_bytes", "ledger_partition", "ledger_offset")

Decoder = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def write_decoded(
    folder: RunFolder,
    name: str,
    schema: T.StructType,
    records: DataFrame,
    decode: Decoder,
    *,
    rows: int,
    summary: Summary,
) -> Tables:
    """Replace the table ``name`` by what ``decode`` makes of ``records``; return its summary.

    ``decode`` gives batches with the columns of ``schema``; ``rows`` is their approximate number.
    """
    records = records.coalesce(file_count(rows))
    beside = folder.table_path(f".{name}")
    place = folder.local_path(beside)
    if place is None:
        folder.write_table(name, schema, records.mapInArrow(decode, schema), rows=rows)
        return summarised(folder.read_table(name, schema), summary)
    folder.discard(beside)  # of a job that was killed
    try:
        write = _writer(place, to_arrow_schema(schema), decode, summary)
        written = records.mapInArrow(write, f"{_FILE} string, {SUMMARY_ROWS}").collect()
        if written:
            folder.publish_table(name, beside, [row[_FILE] for row in written])
        else:
            folder.write_rows(name, schema, [])
        return united(row["content"] for row in written)
    finally:
        folder.discard(beside)


def _writer(place: str, schema: pa.Schema, decode: Decoder, summary: Summary) -> Decoder:
    """Return a step that writes a file for each partition with rows; gives its name and summary."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups = _groups(decode(batches), summary)
        first = next(groups, None)
        if first is None:
            return
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        name = f"part-{number:05}-{uuid.uuid4().hex}.parquet"
        Path(place).mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(f"{place}/{name}", schema, **_encodings(schema)) as file:
            for group in chain((first,), groups):
                file.write_table(group.cast(schema))
        yield pa.RecordBatch.from_pydict({_FILE: [name], "content": [packed(summary)]})

    return write


def _groups(batches: Iterable[pa.RecordBatch], summary: Summary) -> Iterator[pa.Table]:
    """Join batches to tables of about ``_ROWS_PER_GROUP`` rows; add each to the summary."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        summary.add(batch)
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS_PER_GROUP:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting)


def _encodings(schema: pa.Schema) -> dict[str, object]:
    """Return the writer's settings: differences for numbers, a dictionary for what repeats."""
    repeated = [f.name for f in schema if f.name in _REPEATED or pa.types.is_string(f.type)]
    others = {f.name: "DELTA_BINARY_PACKED" for f in schema if f.name not in repeated}
    return {"compression": "snappy", "use_dictionary": repeated, "column_encoding": others}
