"""The process that imports Airflow while the bench starts, and then becomes it."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import psutil
import pytest
from tests.eventually import eventually
from tests.fakes.migrated_database import give_database
from tests.fakes.user_environment import as_a_user

from lagbench.orchestrator.airflow_environment import DagProcess, airflow_home

pytestmark = pytest.mark.slow


@pytest.fixture
def process(tmp_path: Path) -> DagProcess:
    """Provide a process that waits."""
    give_database(tmp_path)
    with as_a_user():
        return DagProcess(tmp_path)


def test_it_becomes_airflow_when_it_has_work(process: DagProcess, tmp_path: Path) -> None:
    """The command's output goes to the log of the run."""
    log = airflow_home(tmp_path) / "logs" / "a-run.log"

    with as_a_user():
        process.run("version", connections={}, log_path=log)
    eventually(process.has_ended, "Airflow ends")

    assert log.read_text().splitlines()[-1] == version("apache-airflow-core")


def test_without_work_nothing_of_it_stays(process: DagProcess, tmp_path: Path) -> None:
    """A bench that does not start ends the process that waits for it."""
    process.end()

    assert process.has_ended()
    assert [child.cmdline() for child in psutil.process_iter() if _is_of(child, tmp_path)] == []


def test_work_for_a_process_that_has_ended_is_no_error(process: DagProcess, tmp_path: Path) -> None:
    """Its log says why it ended, and whoever follows it sees that it has."""
    log = airflow_home(tmp_path) / "logs" / "a-run.log"
    process.end()

    with as_a_user():
        process.run("version", connections={}, log_path=log)

    assert process.has_ended()
    assert log.is_file()


def _is_of(process: psutil.Process, state_dir: Path) -> bool:
    try:
        return process.environ().get("LAGBENCH_STATE_DIR") == str(state_dir)
    except psutil.Error:
        return False
