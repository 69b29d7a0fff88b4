"""Land a run: its three topics, up to the fence, as Parquet tables in the run folder."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from lagbench.shared_with_spark.kafka_options import spark_kafka_options
from lagbench_spark import schemas
from lagbench_spark.decode import (
    decode_events,
    decode_ledger,
    decode_telemetry,
    event_headers,
    output_rows,
)
from lagbench_spark.run import Run, read_run
from lagbench_spark.run_folder import Fence, RunFolder, file_count
from lagbench_spark.session import begin, with_large_rows

# With Kafka's default of 500 records a poll, the consumer's bookkeeping dominates the read.
_RECORDS_PER_POLL = "20000"
_FETCH_BYTES = str(8 * 1024 * 1024)
# Rows of one row group: 25 MB of columns in memory until they are written.
_ROWS_PER_GROUP = 262_144
# One value for each record of a topic or each partition; other numbers are nearly unique.
_REPEATED = ("partition", "producer_id", "size_bytes", "ledger_partition", "ledger_offset")

Decoder = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Topics:
    """The run's three topics and their servers."""

    bootstrap_servers: str
    events: str
    processed: str
    telemetry: str


def land(folder: RunFolder, topics: Topics | None, fence: Fence) -> Run:
    """Write the tables telemetry, events and processed; return the run.

    A repetition replaces the tables. Telemetry comes first, because it has the stream's start.

    :param topics: None: read the run folder's copies of them.
    """

    def records(
        kind: str, ends: Mapping[int, int], session: SparkSession = folder.session
    ) -> DataFrame:
        if topics is None:
            return session.read.parquet(folder.place(f"copies/{kind}"))
        return read_topic(session, topics.bootstrap_servers, getattr(topics, kind), ends)

    begin(folder, "telemetry")
    telemetry = decode_telemetry(records("telemetry", fence.telemetry))
    folder.write_table("telemetry", schemas.TELEMETRY, telemetry)
    run = read_run(folder, fence)
    begin(folder, "events")
    headers = event_headers(records("events", fence.events), run_id=fence.identity_run_id)
    decode = partial(decode_events, stream_started_at=run.stream_started_at)
    write_decoded(folder, "events", schemas.EVENTS, headers, decode, rows=fence.messages)
    begin(folder, "processed")
    if fence.accounting == "output":
        events = folder.read_table("events", schemas.EVENTS)
        output = records("processed", fence.processed)
        rows = output_rows(output, events, run_id=fence.identity_run_id)
        folder.write_table("processed", schemas.PROCESSED, rows, rows=fence.messages)
    else:
        ledger = records("processed", fence.processed, with_large_rows(folder.session))
        values = ledger.select("partition", "offset", "value")
        decode = partial(decode_ledger, stream_started_at=run.stream_started_at)
        write_decoded(folder, "processed", schemas.PROCESSED, values, decode, rows=fence.messages)
    return run


def read_topic(
    session: SparkSession, bootstrap_servers: str, topic: str, ends: Mapping[int, int]
) -> DataFrame:
    """Return the records below the end offsets with the columns of Spark's Kafka source.

    If a record disappears during the read, the job fails (failOnDataLoss). A record that expired
    before is found by the accounting, which expects every offset up to the fence. Records of
    uncommitted transactions are left out: no reader of the topic would act on them.
    """
    fence = {topic: {str(partition): offset for partition, offset in ends.items()}}
    return (
        session.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .options(**spark_kafka_options(os.environ))
        .option("assign", json.dumps({topic: sorted(ends)}))
        .option("startingOffsets", "earliest")
        .option("endingOffsets", json.dumps(fence))
        .option("failOnDataLoss", "true")
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.max.poll.records", _RECORDS_PER_POLL)
        .option("kafka.max.partition.fetch.bytes", _FETCH_BYTES)
        .load()
    )


def write_decoded(
    folder: RunFolder,
    name: str,
    schema: pa.Schema,
    records: DataFrame,
    decode: Decoder,
    *,
    rows: int,
) -> None:
    """Replace the table ``name`` by what ``decode`` makes of ``records``, about ``rows`` rows.

    The Python that decodes a batch also writes it. A way back through the JVM would cost more than
    decoding and writing together: there each value is handled by itself, here a column at a time.
    An object store has no file for Python to write, so Spark writes there.
    """
    records = records.coalesce(file_count(rows))
    place = folder.local_path(f"tables/.{name}")
    if place is None:
        decoded = records.mapInArrow(decode, schemas.spark_schema(schema))
        folder.write_table(name, schema, decoded, rows=rows)
        return

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a file if there are rows, and give its name."""
        groups = _groups(decode(batches))
        first = next(groups, None)
        if first is None:
            return
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        file_name = f"part-{number:05}-{uuid.uuid4().hex}.parquet"
        Path(place).mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(f"{place}/{file_name}", schema, **_encodings(schema)) as file:
            for group in chain((first,), groups):
                file.write_table(group.cast(schema))
        yield pa.RecordBatch.from_pydict({"file": [file_name]})

    folder.remove(f"tables/.{name}")  # of a job that was killed
    try:
        written = [row["file"] for row in records.mapInArrow(write, "file string").collect()]
        if written:
            folder.publish_table(name, written)
        else:
            folder.write_rows(name, schema, schema.empty_table())
    finally:
        folder.remove(f"tables/.{name}")


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join batches to tables of about ``_ROWS_PER_GROUP`` rows."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
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
