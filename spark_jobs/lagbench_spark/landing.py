"""Land a run: its three topics, up to the fence, as Parquet tables in the run folder."""

from __future__ import annotations

import json
import os
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from lagbench.core.ownership.run_facts import FACT_KINDS, RunFacts, facts_of
from lagbench.shared_with_spark.kafka_options import spark_kafka_options
from lagbench_spark import schemas
from lagbench_spark.decode import (
    decode_events,
    decode_ledger,
    decode_telemetry,
    event_headers,
    output_rows,
)
from lagbench_spark.messages import Rules
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


_SAMPLES = ("lag_sample", "replica_sample")

_MARGIN_NS = 60_000_000_000

_LONGEST_RUN_NS = 4 * 86_400 * 1_000_000_000

_LABELS = ("pod", "member_id")

Judge = Callable[[int | None, pa.Table, pa.Table], pa.RecordBatch]
"""Takes a partition's events and processings; None: all that is of no partition of the topic."""


class Stranger(NamedTuple):
    """The place of a record that does not belong to the run."""

    topic: str  # events, processed or telemetry
    partition: int | None
    offset: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class Run:
    """A landed run.

    ``window``: the time in which the run can have worked, unix ns. ``samples``: the recorder's
    readings as JSON. ``strangers``: records of the telemetry that are none.
    """

    folder: RunFolder
    fence: Fence
    facts: RunFacts
    stream_started_at: int | None
    window: tuple[int, int] | None
    samples: Sequence[str]
    strangers: Sequence[Stranger]

    @property
    def rules(self) -> Rules:
        """The bounds of a message of the run."""
        started_at, sample_ns = self.stream_started_at, self.facts.plan.sample_ns
        sample_end = None
        if started_at is not None and sample_ns is not None:
            clocks, producer = self.facts.clocks, self.facts.producer
            if producer is not None:
                started_at = clocks.on_recorders(started_at, producer)
            sample_end = started_at + sample_ns
        return Rules(self.fence, self.facts, self.window, sample_end)

    def idle(self) -> dict[str, list[int]]:
        """Return when each killed pod reported that it had nothing to do."""
        idle: dict[str, list[int]] = defaultdict(list)
        if not self.facts.kills:
            return idle
        reported = _telemetry(self.folder).filter(
            (F.col("kind") == "consumer_progress") & F.col("source").isin(*self.facts.kills)
        )
        figures = F.from_json("record", "inflight bigint, queued bigint").alias("figures")
        nothing = reported.select("source", "at", figures).filter(
            (F.col("figures.inflight") == 0) & (F.col("figures.queued") == 0)
        )
        for row in nothing.select("source", "at").collect():
            idle[row["source"]].append(self.facts.clocks.on_recorders(row["at"], row["source"]))
        return idle

    def by_partition(self, judge: Judge, columns: str) -> DataFrame:
        """Return what ``judge`` says of each partition, as rows with these columns.

        On a disk a Python process reads the files of a partition itself. From an object store
        Spark brings the rows of each partition together.
        """
        session, ends = self.folder.session, sorted(self.fence.events)
        places: list[int | None] = [*ends, None]
        names = ("events", "processed")
        events, processed = (self.folder.local_path(f"tables/{name}") for name in names)
        if events is not None and processed is not None:

            def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                for batch in batches:
                    for number in batch.column("id").to_pylist():
                        place = places[number]
                        log = _rows(events, place, ends)
                        yield judge(place, log, _rows(processed, place, ends))

            every = session.range(0, len(places), 1, len(places))
            return every.mapInArrow(read, columns)

        def of_group(key: tuple[pa.Scalar, ...], log: pa.Table, work: pa.Table) -> pa.Table:
            place = key[0].as_py()
            batch = judge(place, log.drop_columns("place"), work.drop_columns("place"))
            return pa.Table.from_batches([batch])

        is_place = F.col("partition").isin(ends)
        grouped = (
            self.folder.read_table(name, schema)
            .withColumn("place", F.when(is_place, F.col("partition")))
            .groupBy("place")
            for name, schema in zip(names, (schemas.EVENTS, schemas.PROCESSED), strict=True)
        )
        log, work = grouped
        return log.cogroup(work).applyInArrow(of_group, columns)


def read_run(folder: RunFolder, fence: Fence) -> Run:
    """Return the run, whose telemetry has landed."""
    is_record = F.col("at").isNotNull() & F.col("source").isNotNull() & F.col("kind").isNotNull()
    needed = (*FACT_KINDS, *_SAMPLES)
    size = F.octet_length("record").alias("size")
    telemetry = _telemetry(folder).withColumn("is_record", is_record)
    rows = telemetry.select("*", size).filter(~is_record | F.col("kind").isin(*needed)).collect()
    records = [row for row in rows if row["is_record"]]
    manifest = folder.read_json("manifest.json") if folder.has("manifest.json") else {}
    facts = facts_of(
        (row["record"] for row in records if row["kind"] in FACT_KINDS),
        fidelity=manifest.get("fidelity"),
        are_silent=fence.accounting is not None,
    )
    began_at = started_at = fence.stream_started_at
    if started_at is None:
        field = F.get_json_object("record", "$.stream_started_at").try_cast("bigint")
        begins = telemetry.filter(F.col("kind") == "stream_started")
        began_at, started_at = begins.agg(F.min("at"), F.min(field)).first() or (None, None)
    ended_at = fence.fenced_at
    if ended_at is None:
        ended_at = max((row["at"] for row in records), default=None)
    return Run(
        folder=folder,
        fence=fence,
        facts=facts,
        stream_started_at=started_at,
        window=window_of(began_at, ended_at, facts.plan.offset_ns or 0),
        samples=[row["record"] for row in records if row["kind"] in _SAMPLES],
        strangers=[
            Stranger(
                "telemetry",
                row["partition"],
                row["offset"],
                f"a text of {row['size']} bytes that is not a record",
            )
            for row in rows
            if not row["is_record"]
        ],
    )


def _telemetry(folder: RunFolder) -> DataFrame:
    return folder.read_table("telemetry", schemas.TELEMETRY)


def window_of(
    started_at: int | None, ended_at: int | None, planned_ns: int
) -> tuple[int, int] | None:
    """Return the time from a minute before the stream's start until a minute after the fence.

    Without a fence's instant the run lasts until its last telemetry, four days at most.
    """
    if started_at is None or ended_at is None:
        return None
    ended_at = min(max(ended_at, started_at + planned_ns), started_at + _LONGEST_RUN_NS)
    return started_at - _MARGIN_NS, ended_at + _MARGIN_NS


def _rows(path: str, partition: int | None, known: Sequence[int]) -> pa.Table:
    """Return the rows of one partition in the files of a table; None: of none that is known."""
    field = ds.field("partition")
    wanted = field == partition
    if partition is None:
        wanted = field.is_null() | ~field.isin(known)
    read = ds.ParquetFileFormat(dictionary_columns=_LABELS)
    return ds.dataset(path, format=read).to_table(filter=wanted, use_threads=False)
