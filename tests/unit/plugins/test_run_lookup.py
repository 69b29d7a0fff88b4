"""The page of a Dag run shows its newest run folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lagbench_airflow import run_lookup
from lagbench_airflow.run_lookup import NIGHTLY_DAG, SCENARIO_DAG, folder_of_page


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the runs folder, with the two tries of a cleared night."""
    monkeypatch.setattr(run_lookup, "runs_root", lambda: tmp_path)
    for number, dag_run in enumerate(("rehearsal__night", "rehearsal__night__try_2"), start=1):
        folder = tmp_path / f"try-{number}"
        folder.mkdir()
        (folder / "conf.json").write_text(json.dumps({"dag_run": dag_run}))
        os.utime(folder / "conf.json", (1_000 * number, 1_000 * number))
    return tmp_path


def test_a_report_that_is_written_again_does_not_make_a_try_the_newest(runs: Path) -> None:
    """A file that is written again changes its folder's time, and not when the run was planned."""
    (runs / "try-1" / "report.html").write_text("")

    found = folder_of_page(NIGHTLY_DAG, "night")

    assert found is not None
    assert found.path.name == "try-2"


def test_files_beside_the_run_folders_are_passed_over(runs: Path) -> None:
    """The history lies there, and its part is renamed at any time."""
    (runs / "history.parquet").write_text("")

    assert folder_of_page(NIGHTLY_DAG, "another") is None


@pytest.mark.parametrize("dag_id", ["bench_lifecycle", "experiment_aa_quick_spike", "my_dag"])
def test_a_run_of_another_dag_has_no_run_folder(runs: Path, dag_id: str) -> None:
    """Its id may be that of a run of scenario_run: ids are unique within a Dag only."""
    assert folder_of_page(SCENARIO_DAG, "rehearsal__night") is not None

    assert folder_of_page(dag_id, "rehearsal__night") is None
