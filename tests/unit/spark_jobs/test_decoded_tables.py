"""Writing decoded batches as the files of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from tests.unit.spark_jobs.row_count import RowCount

from lagbench_spark import decoded_tables, schemas
from lagbench_spark.decoded_tables import _writer
from lagbench_spark.transforms import ledger_rows
from lagbench_spark.transforms.ledger_rows import decode_ledger

SCHEMA = to_arrow_schema(schemas.PROCESSED)


def _stranger_records(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([4] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "value": pa.array([b"no ledger"] * count, pa.binary()),
        }
    )


def _decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return decode_ledger(batches, None)


def test_one_file_has_all_rows_of_a_partition(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The step gives the file's name; row groups are of the set size, types those of the schema."""
    monkeypatch.setattr(decoded_tables, "_ROWS_PER_GROUP", 3)
    batches = [_stranger_records(2), _stranger_records(2), _stranger_records(1)]

    (done,) = _writer(str(tmp_path / "table"), SCHEMA, _decode, RowCount())(batches)

    (name,) = done.column("file").to_pylist()
    (file,) = (tmp_path / "table").iterdir()
    assert file.name == name
    written = pq.ParquetFile(file)
    assert written.schema_arrow.equals(SCHEMA)
    assert written.read().column("ledger_offset").to_pylist() == [0, 1, 0, 1, 0]
    assert written.num_row_groups <= 2


def test_rows_are_written_while_others_are_decoded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A partition of any size needs the memory of a few row groups."""
    monkeypatch.setattr(decoded_tables, "_ROWS_PER_GROUP", 10)
    monkeypatch.setattr(ledger_rows, "_ROWS_PER_OUTPUT", 20)
    sizes = []

    def watched(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in _decode(batches):
            sizes.append(sum(file.stat().st_size for file in tmp_path.iterdir()))
            yield batch

    one_by_one = ([_stranger_records(25)] for _ in range(4))
    list(_writer(str(tmp_path), SCHEMA, watched, RowCount())(chain.from_iterable(one_by_one)))

    assert sizes[0] == 0
    assert sizes[-1] > sizes[1] > 0


def test_a_partition_without_rows_has_no_file(tmp_path: Path) -> None:
    """Nothing in, nothing out, and no folder either."""
    assert list(_writer(str(tmp_path / "table"), SCHEMA, _decode, RowCount())([])) == []
    assert list(tmp_path.iterdir()) == []


def test_a_row_without_a_required_value_is_refused(tmp_path: Path) -> None:
    """A decoder that leaves out a place of a record must not make a table."""

    def broken(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in _decode(batches):
            yield batch.set_column(
                SCHEMA.get_field_index("ledger_offset"),
                "ledger_offset",
                pa.nulls(batch.num_rows, pa.int64()),
            )

    with pytest.raises(ValueError, match="ledger_offset"):
        list(_writer(str(tmp_path), SCHEMA, broken, RowCount())([_stranger_records(1)]))
