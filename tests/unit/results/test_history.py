"""history.parquet: a line per judged run, made again from the folders."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.fakes.compared_runs import write_run
from tests.fakes.run_folder_builder import quick_spike_run

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.compare.cell_identity import Environment
from lagbench.core.measures.measures import NAMED
from lagbench.errors import LagbenchError, NotReady
from lagbench.results import history
from lagbench.results.gate import judge_night
from lagbench.results.history import (
    HISTORY_FILE,
    append_history,
    history_row,
    read_history,
    rebuild_history,
)
from lagbench.results.measure_run import judge_run, rejudge_run
from lagbench.results.read_run import read_scenario


def test_the_verdict_appends_the_run(tmp_path: Path) -> None:
    """Judging a run writes its line: every named measure, verdict, seed, manifest."""
    folder = quick_spike_run().write(tmp_path)
    verdict = judge_run(folder)

    (row,) = read_history(tmp_path)

    assert (row.run_id, row.verdict, row.scenario) == (
        folder.run_id,
        verdict.status,
        read_scenario(folder).name,
    )
    assert set(row.measures) == set(NAMED)
    assert row.measures["reaction_seconds"] == pytest.approx(16.5)
    assert row == history_row(folder)


def test_judging_again_replaces_the_line(tmp_path: Path) -> None:
    """One line per run, with the newest verdict."""
    folder = quick_spike_run().write(tmp_path)
    judge_run(folder)
    shutil.rmtree(folder.table("telemetry"))

    with pytest.raises(LagbenchError):
        rejudge_run(folder)

    (row,) = read_history(tmp_path)
    assert row.verdict == "undetermined"
    assert set(row.measures.values()) == {None}


def test_the_columns_are_measures_and_the_manifest(tmp_path: Path) -> None:
    """Other programs read the file; machine and versions read back equal those of the manifest."""
    folder = write_run(tmp_path, "a", seed=3)
    append_history(folder)

    table = pq.read_table(tmp_path / HISTORY_FILE)
    (row,) = read_history(tmp_path)

    assert {"run_id", "cell", "verdict", "manifest.machine.cores", *NAMED} <= {*table.column_names}
    assert table.column("manifest.versions.kafka-broker").to_pylist() == ["4.3.1"]
    assert table.column("seed").to_pylist() == [3]
    assert row.environment == Environment.of_manifest(folder.read_json(folder.manifest))


def test_rebuilding_gives_the_same_history(tmp_path: Path) -> None:
    """Oldest first, without runs that were never judged; lines of deleted folders stay."""
    for number in (2, 1, 3):
        append_history(write_run(tmp_path, f"run-{number}", created_at=number))
    RunFolder.create("unjudged", tmp_path)
    before = read_history(tmp_path)
    (tmp_path / HISTORY_FILE).unlink()

    assert rebuild_history(tmp_path) == (3, 0, ())
    assert read_history(tmp_path) == before
    assert [row.run_id for row in before] == ["run-1", "run-2", "run-3"]
    shutil.rmtree(tmp_path / "run-1")
    assert rebuild_history(tmp_path) == (3, 1, ())
    assert read_history(tmp_path) == before


def test_a_broken_history_is_made_again_by_the_next_run(tmp_path: Path) -> None:
    """Reading it is an error with the command that helps; a verdict does not fail by it."""
    first, second = (write_run(tmp_path, f"run-{n}", created_at=n) for n in (1, 2))
    append_history(first)
    (tmp_path / HISTORY_FILE).write_text("no parquet")

    with pytest.raises(NotReady, match="lagbench history --rebuild"):
        read_history(tmp_path)
    append_history(second)

    assert [row.run_id for row in read_history(tmp_path)] == ["run-1", "run-2"]


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("manifest.json", {"created_at": "yesterday"}, "created_at is 'yesterday'"),
        ("manifest.json", [], "manifest.json is not"),
        ("verdict.json", {"stat": "pass"}, "verdict is None"),
    ],
)
def test_a_folder_that_lagbench_did_not_write_is_left_out_by_name(
    file: str, content: object, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A run with another content has no line, is no error of the verdict, and is named."""
    folder = write_run(tmp_path, "a")
    folder.write_json(file, content)

    append_history(folder)

    assert read_history(tmp_path) == []
    assert "run a" in caplog.text
    assert why in caplog.text
    assert why in rebuild_history(tmp_path).left_out[0]


def test_an_error_of_the_history_itself_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TypeError comes from a mistake in the code: it is raised, and drops no run silently."""
    folder = write_run(tmp_path, "a")
    monkeypatch.setattr(history, "flat_manifest", lambda _content: len(None))  # type: ignore[arg-type]

    with pytest.raises(TypeError):
        append_history(folder)


def test_a_night_notes_a_change_and_is_not_failed_by_it(tmp_path: Path) -> None:
    """Twenty nights around 20 s, four at 37 s: 15 s above the baseline is within the gate."""
    for night in range(24):
        reaction = 18 + 2 * (night % 3) if night < 20 else 37
        folder = write_run(tmp_path, f"night-{night:02}", created_at=night, reaction=reaction)
        append_history(folder)
        if night in (2, 23):  # 22 s is the baseline
            record = judge_night(folder, now=night)

    assert record.status == "within"
    (note,) = record.notes
    assert re.match("Scale-out reaction .* night-20:", note)


def test_a_value_too_close_to_its_limit_is_a_result(tmp_path: Path) -> None:
    """Change points need the runs near a limit, too: without them their mean would move."""
    folder = quick_spike_run().write(tmp_path)
    judge_run(folder)
    found = folder.read_json(folder.verdict)
    near = [slo for slo in found["slos"] if slo["name"] == "drain_seconds"]
    near[0].update(status="undetermined", is_too_close=True)
    folder.write_json(folder.verdict, {**found, "status": "undetermined"})

    append_history(folder)

    (row,) = read_history(tmp_path)
    assert (row.verdict, row.is_result) == ("undetermined", True)
