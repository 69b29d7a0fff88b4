"""The Dag advise in one process, where no person answers: search, approval by the conf, a file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.migrated_database import give_database
from tests.fakes.user_environment import as_a_user

from lagbench.catalog.catalog import load_policy
from lagbench.core.scenario.conf_limits import FOLDERS_VARIABLE
from lagbench.orchestrator.airflow_environment import airflow_command, airflow_environment
from lagbench.project import PROJECT_ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ASKED = {"scenario": "hello", "slo": "time_lag_p99_seconds=30", "candidates": 16, "ask": False}


def played(tmp_path: Path, **changed: Any) -> subprocess.CompletedProcess[str]:
    """Run the Dag to its end, as ``airflow dags test`` does; the folder ``tmp_path`` is allowed."""
    give_database(tmp_path / "state")
    with as_a_user():
        environment = airflow_environment(tmp_path / "state", {})
    environment |= {"LAGBENCH_RUNS_DIR": str(tmp_path / "runs"), FOLDERS_VARIABLE: str(tmp_path)}
    file = str(PROJECT_ROOT / "dags" / "advise.py")
    conf = json.dumps({**ASKED, **changed})
    command = airflow_command("dags", "test", "advise", "--dagfile-path", file, "--conf", conf)
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=800
    )


def test_the_conf_approves_and_the_policy_is_a_new_file(tmp_path: Path) -> None:
    """The proof is skipped; the pool of the search works in the process of a task."""
    made = tmp_path / "advised.yaml"

    ended = played(tmp_path, write_to=str(made))

    assert made.exists(), ended.stdout[-4000:] + ended.stderr[-4000:]
    assert load_policy(made).limits.ceiling_replicas <= 4
    (folder,) = (tmp_path / "runs" / "_advice").iterdir()
    assert made.read_text() == (folder / "scaled-object.yaml").read_text()


def test_a_question_that_nobody_can_answer_ends_at_once(tmp_path: Path) -> None:
    """In one process the task would wait for ever."""
    ended = played(tmp_path, ask=True)

    assert "false in a run of one process" in ended.stdout + ended.stderr
    assert not (tmp_path / "runs" / "_advice").exists()
