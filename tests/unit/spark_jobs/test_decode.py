"""Decoding the records of log and ledger from Arrow batches."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyspark
import pytest
from tests.unit.programs.consumer.fake_group import begun, chunk
from tests.unit.spark_jobs.synthetic_run import clean_run, ledger_records

from lagbench.errors import NotReady, WrongInput
from lagbench.programs.consumer.ledger import encode_batch, ledger_schema
from lagbench.programs.consumer.work_queues import PartitionWork
from lagbench.shared_with_spark.event import EVENT_BYTES, EVENT_DTYPE, event_values
from lagbench_enrich.offsets import checkpointed
from lagbench_enrich.session import EnrichOptions, open_session, parse_options
from lagbench_enrich.task import events_in
from lagbench_spark import schemas
from lagbench_spark.decode import decode_events, decode_ledger

MOST, LEAST = 2**63 - 1, -(2**63)


def _events(planned: list[int], sizes: list[int | None]) -> pa.RecordBatch:
    """Return records as ``event_headers`` gives them: only 256 bytes have an identity."""
    count = len(planned)
    events = np.zeros(count, EVENT_DTYPE)
    events["seq"], events["entity_id"] = np.arange(count) + 7, 1000 - np.arange(count)
    events["planned_offset_ns"], events["producer_id"] = planned, 3
    headers = zip(event_values(events), sizes, strict=True)
    return pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "logged_at": pa.array([5] * count, pa.int64()),
            "size": pa.array(sizes, pa.int32()),
            "header": pa.array([v[:28] if s == 256 else None for v, s in headers], pa.binary()),
        }
    )


def test_the_28_bytes_give_seq_entity_plan_and_producer() -> None:
    """A batch that begins in the middle of its buffers keeps its rows."""
    (decoded,) = decode_events([_events([0, 1, 2, 3], [256] * 4).slice(1, 2)], 100)

    assert decoded.schema.names == schemas.EVENTS.names
    assert [tuple(row.values()) for row in decoded.to_pylist()] == [
        (0, 1, 8, 999, 1, 101, 5, 3, 256),
        (0, 2, 9, 998, 2, 102, 5, 3, 256),
    ]


@pytest.mark.parametrize("sizes", [[256, 9, None, 300, 256], [100, 100, 0, None, 1]])
def test_other_sizes_keep_their_place_and_say_nothing_else(sizes: list[int | None]) -> None:
    """A short value, a tombstone and a long one: the job continues."""
    (decoded,) = decode_events([_events([0] * 5, sizes)], 100)

    assert decoded.column("offset").to_pylist() == [0, 1, 2, 3, 4]
    assert decoded.column("size_bytes").to_pylist() == sizes
    for name in ("seq", "entity_id", "planned_offset_ns", "planned_at", "producer_id"):
        known = [value is not None for value in decoded.column(name).to_pylist()]
        assert known == [size == 256 for size in sizes], name


@pytest.mark.parametrize(
    ("started_at", "planned"),
    [
        (None, [None] * 4),
        (100, [None, MOST, LEAST + 100, 99]),
        (-100, [MOST - 100, MOST - 200, None, -101]),
    ],
)
def test_a_planned_instant_out_of_range_is_unknown(
    started_at: int | None, planned: list[int | None]
) -> None:
    """The offset of a foreign record may be any number: a sum that wraps is no instant."""
    (decoded,) = decode_events([_events([MOST, MOST - 100, LEAST, -1], [256] * 4)], started_at)

    assert decoded.column("planned_at").to_pylist() == planned


def _records(values: list[bytes | None]) -> pa.RecordBatch:
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([4] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
    )


def test_rows_of_the_ledger_carry_their_record_and_its_labels() -> None:
    """Each row has the ledger's place, the pod, the member and the source partition."""
    run = clean_run(count=500)
    values = [value for _, value in ledger_records(run)]

    rows = pa.Table.from_batches(decode_ledger([_records([*values]), _records([])], 100))

    assert rows.schema.names == schemas.PROCESSED.names
    for name in ("offset", "partition", "pod", "seq", "entity_id", "started_at", "done_at"):
        assert rows.column(name).to_pylist() == run.work[name].tolist()
    planned_at = (run.work["planned_offset_ns"] + 100).tolist()
    assert rows.column("planned_at").to_pylist() == planned_at
    assert rows.column("member_id")[0].as_py() == "member-pod-a"
    assert set(rows.column("ledger_partition").to_pylist()) == {4}
    assert rows.column("ledger_offset").to_pylist()[-1] == len(values) - 1


def test_a_message_that_was_given_up_keeps_its_attempts() -> None:
    """Batches with and without dead letters decode together; null says processed."""
    work = PartitionWork(0, "member")
    work.offer(chunk(0, 4))
    written = []
    for count, failed in ((2, None), (2, np.array([0, 3], dtype=np.uint8))):
        writes = replace(begun(work, count), failed_attempts=failed)
        written.append(encode_batch([writes], ledger_schema(0, "pod", "member")))

    rows = pa.Table.from_batches(decode_ledger([_records([*written])], 100))

    assert rows.column("failed_attempts").to_pylist() == [None, None, None, 3]
    assert rows.column("foreign").null_count == 4


def _with_null() -> bytes:
    names = ("offset", "seq", "entity_id", "planned_offset_ns", "started_at", "done_at")
    schema = pa.schema(
        [(name, pa.int64()) for name in names],
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


TOPIC = "lagbench.one.events"


def _log(folder: Path, batch: int, topic: str, **ends: int) -> None:
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), json.dumps({topic: ends})]
    (folder / "offsets" / str(batch)).write_text("\n".join(lines))


def _commit(folder: Path, batch: int) -> None:
    (folder / "commits").mkdir(parents=True, exist_ok=True)
    (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_the_last_committed_batch_counts(tmp_path: Path) -> None:
    """A planned batch that was not committed is done again: its offsets are not read yet.

    An absent folder, and one whose first batch is not committed, are no offsets: not zero.
    """
    assert checkpointed(str(tmp_path / "none"), TOPIC) is None
    for batch in (8, 9, 10):
        _log(tmp_path, batch, TOPIC, **{"0": batch, "1": 2 * batch})
    assert checkpointed(str(tmp_path), TOPIC) is None
    _commit(tmp_path, 8)
    _commit(tmp_path, 9)

    assert checkpointed(f"file://{tmp_path}", TOPIC) == {0: 9, 1: 18}


def test_a_checkpoint_of_another_topic_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    """Spark would start the query and then fail, or read from the beginning."""
    _log(tmp_path, 0, "orders", **{"0": 5})
    with pytest.raises(WrongInput, match="topic orders"):
        checkpointed(str(tmp_path), TOPIC)

    (tmp_path / "offsets" / "0").write_text("v1\n{")
    with pytest.raises(NotReady, match="offsets/0"):
        checkpointed(str(tmp_path), TOPIC)


VARIABLES = {
    "POD_NAME": "driver",
    "KAFKA_BOOTSTRAP_SERVERS": "kafka:9092",
    "SPARK_STREAM_MASTER_URL": "spark://10.0.0.1:7077",
    "SPARK_STREAM_CHECKPOINT": "/checkpoint/a-run",
}


def options(jars: str) -> EnrichOptions:
    """Return the options of a driver with these jars."""
    return parse_options(["--run-id=a-run"], {**VARIABLES, "SPARK_STREAM_JARS": jars})


def test_a_missing_connector_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first jar that is not there; without jars of its own the one beside Spark's."""
    (tmp_path / "a.jar").touch()
    with pytest.raises(WrongInput, match=r"b\.jar.*spark-sql-kafka-0-10"):
        open_session(options(f"{tmp_path}/a.jar,{tmp_path}/b.jar"))

    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(WrongInput, match="spark-sql-kafka-0-10"):
        open_session(options(""))


def test_records_of_others_are_passed_over() -> None:
    """A tombstone and a short value do not end the query: they would at each start again."""
    events = np.zeros(2, EVENT_DTYPE)
    events["seq"] = (4, 5)
    first, second = (event.tobytes() for event in events)
    assert len(first) == EVENT_BYTES

    is_event, found = events_in(pa.array([first, None, b"short", second], pa.binary()))

    assert is_event.tolist() == [True, False, False, True]
    assert found["seq"].tolist() == [4, 5]
    is_event, found = events_in(pa.array([None, b""], pa.binary()))
    assert (is_event.tolist(), len(found)) == ([False, False], 0)
