"""Decoding ledger records."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.unit.spark_jobs.synthetic_run import clean_run, ledger_records

from bench_spark.errors import UnreadableRun
from bench_spark.transforms.ledger_rows import _decode_batches


def _records(values: list[bytes]) -> pa.RecordBatch:
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([4] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
    )


def test_rows_carry_their_record_and_its_labels() -> None:
    """Each row has the ledger's place, the pod, the member and the source partition."""
    run = clean_run(count=500)
    values = [value for _, value in ledger_records(run)]

    rows = pa.Table.from_batches(_decode_batches([_records(values)]))

    assert rows.column("offset").to_pylist() == run.work["offset"].tolist()
    assert rows.column("partition").to_pylist() == run.work["partition"].tolist()
    assert rows.column("pod").to_pylist() == run.work["pod"].tolist()
    assert rows.column("member_id")[0].as_py() == "member-pod-a"
    assert set(rows.column("ledger_partition").to_pylist()) == {4}
    assert rows.column("ledger_offset").to_pylist()[-1] == len(values) - 1


@pytest.mark.parametrize("value", [b"", b"not arrow", None])
def test_other_records_are_refused_by_place(value: bytes) -> None:
    """A record that is no ledger record is named with its place and what is expected."""
    with pytest.raises(UnreadableRun, match=r"ledger partition 4, offset 0 is no ledger record"):
        list(_decode_batches([_records([value])]))


def test_nothing_in_nothing_out() -> None:
    """An empty batch gives no rows."""
    assert list(_decode_batches([_records([])])) == []
