"""Which settings the embedded Airflow gets, and who wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagbench.orchestrator.airflow_environment import (
    admin_password,
    airflow_environment,
    airflow_home,
    empty_temporary_folder,
    passwords_file,
)
from lagbench.orchestrator.dag_run import ProcessDagRun


def test_a_users_connection_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An Airflow connection set by the user replaces the embedded bench's."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", "theirs")
    environment = airflow_environment(tmp_path, {"AIRFLOW_CONN_KAFKA_DEFAULT": "ours"})

    assert environment["AIRFLOW_CONN_KAFKA_DEFAULT"] == "theirs"


def test_a_users_kubeconfig_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell's KUBECONFIG never reaches the embedded bench: it may name a real cluster."""
    monkeypatch.setenv("KUBECONFIG", "/somewhere/production")
    environment = airflow_environment(tmp_path, {"KUBECONFIG": "embedded"})

    assert environment["KUBECONFIG"] == "embedded"


def test_a_users_own_airflow_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell's AIRFLOW_HOME has another Airflow's database, which must not be migrated."""
    monkeypatch.setenv("AIRFLOW_HOME", "/home/me/airflow")

    assert airflow_environment(tmp_path, {})["AIRFLOW_HOME"] == str(airflow_home(tmp_path))


def test_the_password_is_made_once_and_private(tmp_path: Path) -> None:
    """The log-in password stays the same and only its owner can read it."""
    first = admin_password(tmp_path)

    assert admin_password(tmp_path) == first
    assert passwords_file(tmp_path).stat().st_mode & 0o077 == 0


def test_what_tasks_left_is_gone_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's processes have a folder for temporary files, private and emptied at each start."""
    monkeypatch.delenv("TMPDIR", raising=False)  # a user's own would win
    folder = Path(airflow_environment(tmp_path, {})["TMPDIR"])
    empty_temporary_folder(tmp_path)
    (folder / "key_of_a_kubeconfig").touch()
    empty_temporary_folder(tmp_path)

    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o077 == 0


FAILED_FIRST_TASK = """\
[DAG TEST] starting task_id=plan_cell map_index=-1
AirflowFailException: partitions = 0 is not allowed
[DAG TEST] end task task_id=plan_cell map_index=-1
"""

LAST_TASK = """\
[DAG TEST] starting task_id=require_verdict map_index=-1
AirflowFailException: the run ended before plan_cell had made its run folder
DagRun failed
"""


@pytest.mark.parametrize("end", ["", LAST_TASK])
def test_the_tail_of_the_log_explains_the_failure(tmp_path: Path, end: str) -> None:
    """The last task of a failed run only repeats that it failed: its lines are left out."""
    run = ProcessDagRun(tmp_path, {}, {"run_id": "never"})
    run.log_path.parent.mkdir(parents=True)
    run.log_path.write_text(FAILED_FIRST_TASK + end)

    assert run.log_tail(2).splitlines() == FAILED_FIRST_TASK.splitlines()[-2:]
