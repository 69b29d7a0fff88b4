"""Spark reads the identity of a user's messages from their headers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from tests.integration.local_spark import local_spark

from lagbench.shared_with_spark.event import EVENT_DTYPE, IDENTITY_HEADER, identity_headers
from lagbench_spark import schemas
from lagbench_spark.decode import decode_events, event_headers, output_rows
from lagbench_spark.landing import Decoder, write_decoded
from lagbench_spark.run_folder import RunFolder, UnreadableRun

pytestmark = pytest.mark.slow

RECORDS = (
    "partition int, offset long, timestamp timestamp, value binary, "
    "headers array<struct<key: string, value: binary>>"
)


def test_only_the_runs_own_header_is_an_identity() -> None:
    """The first header of the name and of this run counts; all else keeps its place only."""
    events = np.zeros(2, EVENT_DTYPE)
    events["seq"], events["entity_id"], events["planned_offset_ns"] = (5, 6), (70, 80), (900, 950)
    own = [[("trace", b"x"), *found] for found in identity_headers(events, "r-1")]
    of_other = identity_headers(events, "r-2")[0]
    short = [(IDENTITY_HEADER, b"r-1")]
    records = [*own, of_other, short, [], None]
    spark = local_spark()
    rows = spark.createDataFrame(
        [(0, place, None, b"any bytes", headers) for place, headers in enumerate(records)], RECORDS
    ).selectExpr("partition", "offset", "timestamp'2026-01-01' timestamp", "value", "headers")
    found = event_headers(rows, run_id="r-1").toArrow().sort_by("offset").combine_chunks()

    (decoded,) = decode_events(found.to_batches(), 1_000)

    assert set(decoded.schema.names) == set(schemas.EVENTS.names)
    assert decoded["offset"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert decoded["seq"].to_pylist() == [5, 6, None, None, None, None]
    assert decoded["entity_id"].to_pylist() == [70, 80, None, None, None, None]
    assert decoded["planned_at"].to_pylist() == [1_900, 1_950, None, None, None, None]
    assert decoded["size_bytes"].to_pylist() == [9] * 6


AT = datetime(2026, 1, 1, tzinfo=UTC)

AT_NS = int(AT.timestamp()) * 1_000_000_000


def test_each_record_of_the_output_is_a_processing_of_the_message_that_it_names() -> None:
    """Place and plan come from the log, the instant from the broker, the order from the output."""
    events = np.zeros(3, EVENT_DTYPE)
    events["seq"], events["entity_id"] = (5, 6, 9), (70, 80, 90)
    headers = [*identity_headers(events, "r-1"), identity_headers(events, "r-2")[0], None]
    spark = local_spark()
    written = spark.createDataFrame(
        [
            (1, place, AT, b"out", found)
            for place, found in enumerate([headers[1], headers[0], headers[1], *headers[2:]])
        ],
        RECORDS,
    )
    log = spark.createDataFrame(
        [(3, 40, 5, 70, 0, 111, 0, 0, 9), (3, 41, 6, 80, 0, 222, 0, 0, 9)],
        schemas.spark_schema(schemas.EVENTS),
        verifySchema=False,
    )

    rows = [
        row.asDict()
        for row in output_rows(written, log, run_id="r-1").orderBy("ledger_offset").collect()
    ]

    assert set(rows[0]) == set(schemas.PROCESSED.names)
    assert [(row["partition"], row["offset"], row["seq"]) for row in rows] == [
        (3, 41, 6),
        (3, 40, 5),
        (3, 41, 6),
        (-1, -1, 9),  # of no message in the log
        (None, None, None),  # of another run
        (None, None, None),  # the consumer dropped the header
    ]
    assert [row["done_at"] for row in rows[:4]] == [AT_NS, AT_NS + 1, AT_NS + 2, AT_NS + 3]
    assert [row["planned_at"] for row in rows[:3]] == [222, 111, 222]
    assert {row["pod"] for row in rows[:4]} == {"output-1"}
    assert [row["foreign"] is None for row in rows] == [True] * 4 + [False] * 2
    assert " 3 bytes" in rows[5]["foreign"]


SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("pod", pa.string()),
    ]
)

ROWS = 1_000

# Spark's workers cannot import the tests: ship the decoders by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def _decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        numbers = batch.column("id")
        pods = ["pod" if number % 2 else None for number in numbers.to_pylist()]
        yield pa.RecordBatch.from_pydict(
            {"partition": numbers.cast(pa.int32()), "offset": numbers, "pod": pa.array(pods)}
        )


def _fail(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from _decode(batches)
    raise ValueError("a decoder that ends in the middle")


def _records(rows: int) -> DataFrame:
    return local_spark().range(rows).repartition(3)


def _folder(path: Path) -> RunFolder:
    return RunFolder(local_spark(), str(path))


def _table(path: Path) -> pa.Table:
    parts = sorted((path / "tables" / "processed").glob("part-*.parquet"))
    return pa.concat_tables(pq.ParquetFile(part).read() for part in parts).sort_by("offset")


def write(folder: RunFolder, rows: int, decode: Decoder = _decode) -> None:
    """Write the table."""
    write_decoded(folder, "processed", SCHEMA, _records(rows), decode, rows=rows)


def test_both_ways_write_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python writes to a disk, Spark to a store: same rows and types, and a success."""
    for name in ("disk", "store"):
        if name == "store":
            monkeypatch.setattr(RunFolder, "local_path", lambda *_: None)
        folder = _folder(tmp_path / name)
        write(folder, ROWS)

    disk, store = _table(tmp_path / "disk"), _table(tmp_path / "store")

    assert disk.column("offset").to_pylist() == list(range(ROWS))
    assert disk.schema.types == store.schema.types
    assert disk.to_pylist() == store.to_pylist()
    for name in ("disk", "store"):
        assert (tmp_path / name / "tables" / "processed" / "_SUCCESS").exists()


def test_rows_of_the_driver_are_the_same_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file, in the order of its first columns, with the schema's types."""
    rows = [{"partition": 2, "offset": 1, "pod": None}, {"partition": 1, "offset": 5, "pod": "a"}]
    found = {}
    for name in ("disk", "store"):
        if name == "store":
            monkeypatch.setattr(RunFolder, "local_path", lambda *_: None)
        _folder(tmp_path / name).write_rows("processed", SCHEMA, pa.Table.from_pylist(rows, SCHEMA))
        (part,) = (tmp_path / name / "tables" / "processed").glob("part-*.parquet")
        found[name] = pq.ParquetFile(part).read()

    assert found["disk"].to_pylist() == found["store"].to_pylist() == rows[::-1]
    assert found["disk"].schema.types == found["store"].schema.types


def test_a_repetition_replaces_the_table(tmp_path: Path) -> None:
    """The second table is all that is left, also when it has no row; a killed job's files go."""
    folder = _folder(tmp_path)
    left_over = tmp_path / "tables" / ".processed" / "part-00000-killed.parquet"
    left_over.parent.mkdir(parents=True)
    left_over.write_bytes(b"PAR1")

    for rows in (ROWS, 10, 0):
        write(folder, rows)

        assert _table(tmp_path).num_rows == rows
        assert _table(tmp_path).schema.names == SCHEMA.names
        assert folder.read_table("processed", SCHEMA).count() == rows
        assert [path.name for path in (tmp_path / "tables").iterdir()] == ["processed"]


def test_a_failure_leaves_the_earlier_table(tmp_path: Path) -> None:
    """Files are written beside the table; without a success nothing of them remains."""
    folder = _folder(tmp_path)
    write(folder, 10)

    with pytest.raises(Exception, match="in the middle"):
        write(folder, ROWS, _fail)

    assert _table(tmp_path).num_rows == 10
    assert [path.name for path in (tmp_path / "tables").iterdir()] == ["processed"]


def test_only_files_of_tasks_that_succeeded_are_the_table(tmp_path: Path) -> None:
    """The file of an attempt that failed is removed; a file that the driver lacks is an error."""
    folder = _folder(tmp_path)
    beside = tmp_path / "tables" / ".processed"
    beside.mkdir(parents=True)
    for name in ("part-0.parquet", "part-0-failed.parquet"):
        (beside / name).write_bytes(b"")

    with pytest.raises(UnreadableRun, match="part-1"):
        folder.publish_table("processed", ["part-0.parquet", "part-1.parquet"])
    folder.publish_table("processed", ["part-0.parquet"])

    left = {path.name for path in (tmp_path / "tables" / "processed").glob("[!.]*")}
    assert left == {"part-0.parquet", "_SUCCESS"}
