"""The Airflow above a task is found by the commands of its processes."""

from __future__ import annotations

import os

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench_airflow.airflow_process import airflow_pid, outermost_airflow

SHELL = ["-bash"]
RUN = ["/venv/bin/python", "/venv/bin/lagbench", "run", "quick_spike"]
SERVER = ["/venv/bin/python", "-m", "lagbench.orchestrator.airflow_supervisor", "--log", "x"]


@pytest.mark.parametrize(
    ("commands", "place"),
    [
        ([["/venv/bin/python", "-m", "airflow", "dags", "test", "scenario_run"], RUN, SHELL], 0),
        (
            [
                ["airflow task runner: scenario_run.follow_run"],
                ["airflow worker -- LocalExecutor: scenario_run.follow_run"],
                ["airflow scheduler -- "],
                SERVER,
                ["/sbin/init"],
            ],
            3,
        ),
        ([["airflow task runner"], ["/usr/local/bin/airflow", "celery", "worker"], SHELL], 1),
        ([["python", "-m", "pytest"], ["/home/airflow/.venv/bin/python", "x"], SHELL], 0),
        ([[], []], 0),
    ],
)
def test_the_outermost_airflow_is_found(commands: list[list[str]], place: int) -> None:
    """Dags test is its own; else it is what starts the scheduler, again if that has ended."""
    assert outermost_airflow(commands) == place


def test_without_airflow_it_is_the_task_itself() -> None:
    """A process that stands alone is its own owner."""
    assert airflow_pid() == os.getpid()
