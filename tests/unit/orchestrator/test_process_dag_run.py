"""A Dag run in a child process: what it says when it has failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagbench.orchestrator.dag_run import ProcessDagRun

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
