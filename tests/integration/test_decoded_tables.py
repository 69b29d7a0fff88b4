"""Tables that executors' Python writes, on a real Spark: both ways of writing, and what remains."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from tests.integration.local_spark import local_spark

from lagbench_spark.landing import Decoder, write_decoded
from lagbench_spark.run_folder import RunFolder, UnreadableRun

pytestmark = pytest.mark.slow

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
