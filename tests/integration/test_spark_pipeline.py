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


def test_timeline_has_every_bin_and_every_message(landed: tuple[SyntheticRun, Path]) -> None:
    """Bins follow each other without a hole, and their sums are the totals."""
    _, folder = landed

    timeline = _table(folder, "timeline")

    at = timeline.column("at").to_pylist()
    assert at == list(range(at[0], at[-1] + 1, 100 * MILLISECOND))
    sums = {name: sum(timeline.column(name).to_pylist()) for name in timeline.column_names[1:]}
    assert sums == {"offered": 3_000, "processed": 3_000, "processed_again": REPEATED}
    by_pod = _table(folder, "timeline_by_pod")
    assert sum(by_pod.column("processed").to_pylist()) == 3_000 + REPEATED
    latency = _table(folder, "latency")
    assert sum(latency.column("count").to_pylist()) == 3_000 + REPEATED
    assert latency.column("p50_seconds")[0].as_py() == pytest.approx(0.004)


def test_handovers_are_gaps_between_two_pods(landed: tuple[SyntheticRun, Path]) -> None:
    """Each handed-over partition has one gap, from its last message to the heir's first."""
    _, folder = landed

    gaps = _table(folder, "partition_gaps").to_pylist()

    assert [(g["partition"], g["from_pod"], g["to_pod"]) for g in gaps] == [
        (2, "pod-a", "pod-c"),
        (5, "pod-b", "pod-c"),
    ]
    assert all(0 < gap["gap_seconds"] < 0.05 for gap in gaps)


def test_failed_readings_stay_gaps(landed: tuple[SyntheticRun, Path]) -> None:
    """A reading that failed has no row; a partition without a commit has no lag."""
    _, folder = landed
    later = STREAM_STARTED_AT + 2_000 * MILLISECOND

    lag = [tuple(row.values()) for row in _table(folder, "lag").to_pylist()]

    assert lag == [
        (STREAM_STARTED_AT, 0, 10, None, None),
        (STREAM_STARTED_AT, 1, 9, 4, 5),
        (later, 0, 20, 20, 0),
    ]
    assert _table(folder, "replicas").to_pylist() == [
        {"at": STREAM_STARTED_AT, "spec": 3, "current": 2, "ready": 1}
    ]
