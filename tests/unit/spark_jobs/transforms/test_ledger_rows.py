"""Decoding ledger records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.programs.consumer.records import chunk
from tests.unit.spark_jobs.synthetic_run import clean_run, ledger_records

from lagbench.programs.consumer.ledger import encode_batch, ledger_schema
from lagbench.programs.consumer.partition_work import PartitionWork, Writes
from lagbench_spark import schemas
from lagbench_spark.transforms.ledger_rows import _NUMBERS, decode_ledger


def _records(values: list[bytes | None]) -> pa.RecordBatch:
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

    rows = pa.Table.from_batches(decode_ledger([_records(values)], 100))

    assert rows.schema.names == schemas.PROCESSED.names
    assert rows.column("offset").to_pylist() == run.work["offset"].tolist()
    assert rows.column("partition").to_pylist() == run.work["partition"].tolist()
    assert rows.column("pod").to_pylist() == run.work["pod"].tolist()
    assert rows.column("member_id")[0].as_py() == "member-pod-a"
    assert set(rows.column("ledger_partition").to_pylist()) == {4}
    assert rows.column("ledger_offset").to_pylist()[-1] == len(values) - 1


def test_a_message_that_was_given_up_keeps_its_attempts() -> None:
    """Batches with and without dead letters decode together; null says processed."""
    work = PartitionWork(0, "member")
    work.offer(chunk(0, 4))
    written = []
    for count, failed in ((2, None), (2, np.array([0, 3], dtype=np.uint8))):
        offsets, events = work.begin(count)
        writes = Writes(work, offsets, events, offsets, offsets, failed)
        written.append(encode_batch([writes], ledger_schema(0, "pod", "member")))

    rows = pa.Table.from_batches(decode_ledger([_records([*written])], 100))

    assert rows.column("failed_attempts").to_pylist() == [None, None, None, 3]
    assert rows.column("foreign").null_count == 4


def _with_null() -> bytes:
    schema = pa.schema(
        [(name, pa.int64()) for name in _NUMBERS],
        metadata={"version": "1", "pod": "a", "partition": "0", "member_id": "m"},
    )
    columns = [pa.array([1, None], pa.int64()) for _ in schema]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    content: bytes = sink.getvalue().to_pybytes()
    return content


@pytest.mark.parametrize("value", [b"", b"not arrow", None, b"\xff" * 300, _with_null()])
def test_a_stranger_keeps_its_place_and_the_job_goes_on(value: bytes | None) -> None:
    """A record that is of no ledger is one row with place and reason, beside the real ones."""
    real = next(value for _, value in ledger_records(clean_run(count=500)))

    rows = pa.Table.from_batches(decode_ledger([_records([value, real])], 100)).to_pylist()

    assert (rows[0]["ledger_partition"], rows[0]["ledger_offset"]) == (4, 0)
    assert "not a ledger record" in rows[0]["foreign"]
    assert rows[0]["pod"] is rows[0]["offset"] is rows[0]["partition"] is None
    assert all(row["foreign"] is None and row["pod"] for row in rows[1:])
    assert len(rows) > 1


def test_nothing_in_nothing_out() -> None:
    """An empty batch gives no rows."""
    assert list(decode_ledger([_records([])], 100)) == []
