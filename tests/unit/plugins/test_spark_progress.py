"""What the accounting says in the run folder becomes progress of its phase."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.eventually import eventually
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.shared_with_spark.job_progress import PROGRESS_FILE
from lagbench_airflow.operators.submit_spark_job import shown_progress


def phases(folder: RunFolder) -> list[tuple[str, str, str]]:
    """Return name, state and detail of the phases so far."""
    text = folder.phases.read_text() if folder.phases.exists() else ""
    entries = [msgspec.json.decode(line) for line in text.splitlines()]
    return [(entry["name"], entry["state"], entry["detail"]) for entry in entries]


@pytest.mark.parametrize("garbled", ["", "[]", '{"step": "of another version"}'])
def test_each_new_word_of_the_job_is_recorded_once(tmp_path: Path, garbled: str) -> None:
    """A file that is not there, or that nobody understands, says nothing."""
    folder = RunFolder.create("a-run", tmp_path)
    file = folder.path / PROGRESS_FILE
    file.write_text(json.dumps({"step": "telemetry", "done": 0, "of": 1}))  # of an earlier try
    with shown_progress(folder, "account"):
        file.write_text(garbled)
        file.write_text(json.dumps({"step": "events", "done": 7, "of": 12}))
        eventually(lambda: len(phases(folder)) > 1, "the first word")
        file.write_text(json.dumps({"step": "accounting", "done": 0, "of": 2}))
        eventually(lambda: len(phases(folder)) > 2, "the second word")

    assert phases(folder) == [
        ("account", "progress", "starting Spark"),
        ("account", "progress", "landing the log, 7 of 12 tasks"),
        ("account", "progress", "accounting, 0 of 2 tasks"),
    ]
