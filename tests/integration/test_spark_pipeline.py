"""The pipeline as the Dag submits it, on a real broker."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.integration.landed_run import REPEATED, samples
from tests.unit.spark_jobs.synthetic_run import MILLISECOND, STREAM_STARTED_AT, SyntheticRun

from lagbench.core.telemetry.records import encode_record

pytestmark = pytest.mark.slow


def _table(folder: Path, name: str) -> pa.Table:
    return pq.read_table(folder / "tables" / name)


def test_events_are_what_was_produced(landed: tuple[SyntheticRun, Path]) -> None:
    """Every message below the fence is in the table once, with its planned instant."""
    run, folder = landed

    events = _table(folder, "events").sort_by("seq")

    for name in ("partition", "offset", "seq", "entity_id", "planned_offset_ns"):
        assert events.column(name).to_pylist() == run.messages[name].tolist()
    planned_at = (run.messages["planned_offset_ns"] + STREAM_STARTED_AT).tolist()
    assert events.column("planned_at").to_pylist() == planned_at
    logged_at = [at // MILLISECOND * MILLISECOND for at in planned_at]
    assert events.column("logged_at").to_pylist() == logged_at


def test_ledger_is_what_the_pods_wrote(landed: tuple[SyntheticRun, Path]) -> None:
    """Every processing is in the table, with pod and instants."""
    run, folder = landed
    names = ["partition", "offset", "seq", "entity_id", "started_at", "done_at", "pod"]

    processed = _table(folder, "processed").select(names)

    rows = sorted(zip(*(column.to_pylist() for column in processed.columns), strict=True))
    assert rows == sorted(zip(*(run.work[name].tolist() for name in names), strict=True))


def test_telemetry_is_kept_word_for_word(landed: tuple[SyntheticRun, Path]) -> None:
    """Every record is in the table as it was sent, with its kind pulled out."""
    run, folder = landed

    telemetry = _table(folder, "telemetry")

    sent = [encode_record(record).decode() for record in [*run.telemetry, *samples()]]
    assert sorted(telemetry.column("record").to_pylist()) == sorted(sent)
    kinds = [json.loads(text)["kind"] for text in telemetry.column("record").to_pylist()]
    assert telemetry.column("kind").to_pylist() == kinds


def test_accounting_finds_the_kill_and_nothing_else(landed: tuple[SyntheticRun, Path]) -> None:
    """Uncommitted work of the killed pod is counted as repeated because of the kill."""
    _, folder = landed

    content = json.loads((folder / "accounting.json").read_text())

    assert content["in_log"] == content["processed_distinct"] == 3_000
    assert content["processed_records"] == 3_000 + REPEATED
    assert content["duplicated"] == content["duplicated_messages"] == REPEATED
    assert content["by_cause"] == {"killed": REPEATED}
    other = ("lost", "reordered", "zombie", "not_yet_consumed", "produced_twice", "not_in_log")
    assert [content[kind] for kind in other] == [0] * len(other)
    assert _table(folder, "bad_messages").num_rows == REPEATED
