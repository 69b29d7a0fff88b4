"""Write a synthetic run as the tables that landing would have written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.unit.spark_jobs.synthetic_run import STREAM_STARTED_AT, SyntheticRun

from lagbench.core.telemetry.records import encode_record
from lagbench.shared_with_spark.event import EVENT_BYTES

_LEDGER_PARTITIONS = 6
_ROWS_A_RECORD = 100


def write_run(run: SyntheticRun, folder: Path, end_offsets: dict[int, int] | None = None) -> None:
    """Write events, processed, telemetry and fence.json; ``end_offsets`` by default the log's."""
    tables = {
        "events": events_of(run),
        "processed": processed_of(run),
        "telemetry": _telemetry(run),
    }
    for name, table in tables.items():
        place = folder / "tables" / name
        place.mkdir(parents=True)
        pq.write_table(table, place / "part-0.parquet")
    ends = run.end_offsets() if end_offsets is None else end_offsets
    fence = {"events": ends, "processed": {}, "telemetry": {}, "committed": run.committed}
    (folder / "fence.json").write_text(json.dumps(fence))
    if run.fidelity is not None:
        (folder / "manifest.json").write_text(json.dumps({"fidelity": run.fidelity}))


def events_of(run: SyntheticRun) -> pa.Table:
    """Return the table events."""
    rows = run.messages[np.lexsort((run.messages["offset"], run.messages["partition"]))]
    is_other = rows["seq"] < 0
    planned_at = rows["planned_offset_ns"] + STREAM_STARTED_AT
    logged_at = np.where(is_other, STREAM_STARTED_AT, planned_at)
    return pa.table(
        {
            "partition": np.ascontiguousarray(rows["partition"]),
            "offset": np.ascontiguousarray(rows["offset"]),
            **{
                name: pa.array(np.ascontiguousarray(rows[name]), mask=is_other)
                for name in ("seq", "entity_id", "planned_offset_ns")
            },
            "planned_at": pa.array(planned_at, mask=is_other),
            "logged_at": logged_at,
            "producer_id": pa.array(np.zeros(len(rows), np.int32), mask=is_other),
            "size_bytes": np.where(is_other, 9, EVENT_BYTES).astype(np.int32),
        }
    )


def processed_of(run: SyntheticRun) -> pa.Table:
    """Return the table processed."""
    rows = run.work
    pods = rows["pod"].tolist()
    return pa.table(
        {
            "partition": np.ascontiguousarray(rows["partition"]),
            "offset": np.ascontiguousarray(rows["offset"]),
            "seq": np.ascontiguousarray(rows["seq"]),
            "entity_id": np.ascontiguousarray(rows["entity_id"]),
            "planned_at": rows["planned_offset_ns"] + STREAM_STARTED_AT,
            "started_at": np.ascontiguousarray(rows["started_at"]),
            "done_at": np.ascontiguousarray(rows["done_at"]),
            "pod": pods,
            "member_id": [run.member or f"member-{pod}" for pod in pods],
            "ledger_partition": (rows["partition"] % _LEDGER_PARTITIONS).astype(np.int32),
            "ledger_offset": np.arange(len(rows)) // _ROWS_A_RECORD,
            "failed_attempts": pa.array(
                np.ascontiguousarray(rows["failed_attempts"]), mask=rows["failed_attempts"] == 0
            ),
            "foreign": pa.nulls(len(rows), pa.string()),
        }
    )


def _telemetry(run: SyntheticRun) -> pa.Table:
    texts = [encode_record(record).decode() for record in run.telemetry]
    decoded = [json.loads(text) for text in texts]
    return pa.table(
        {
            "at": [record["at"] for record in decoded],
            "source": [record["source"] for record in decoded],
            "kind": [record["kind"] for record in decoded],
            "record": texts,
        }
    )
