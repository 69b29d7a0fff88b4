"""The end of a cell: what decides whether its Dag run has succeeded."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import yaml
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.unit.plugins.conftest import RUN_ID, SCALED_OBJECT, SCENARIO

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.project import PROJECT_ROOT
from lagbench_airflow import bench_life

from airflow.dag_processing.dagbag import DagBag  # isort: skip
from airflow.models.dagrun import DagRun  # isort: skip
from airflow.sdk.exceptions import AirflowFailException  # isort: skip

CLEAN = [("remove_workloads", "finished", ""), ("bench_down", "finished", "")]


class TaskState(NamedTuple):
    """What Airflow reads of a task instance to find the state of its run."""

    task_id: str
    state: str


@pytest.fixture(scope="module")
def cell() -> Any:
    """Return the Dag of a cell."""
    return DagBag(str(PROJECT_ROOT / "dags" / "scenario_run.py")).dags["scenario_run"]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Return the folder of a run with a verdict."""
    made = RunFolder.create(RUN_ID, tmp_path)
    made.write_text(made.scenario, yaml.safe_dump(SCENARIO))
    made.write_text(made.policy, yaml.safe_dump(SCALED_OBJECT))
    made.write_json(made.verdict, {"status": "pass"})
    return made


def test_only_the_gate_and_the_last_teardown_decide(cell: Any) -> None:
    """Airflow takes the state of a run from its leaves, and no other task here is one."""
    states = [TaskState(task_id, "success") for task_id in cell.task_ids]

    leaves = DagRun._tis_for_dagrun_state(None, dag=cell, tis=states)  # type: ignore[arg-type]

    assert {leaf.task_id for leaf in leaves} == {"slo_gate", "require_verdict"}


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        (
            [("remove_workloads", "failed", "pod x stays"), CLEAN[1]],
            "remove_workloads: pod x stays",
        ),
        ([CLEAN[0], ("bench_down", "failed", "broker stays")], "bench_down: broker stays"),
        ([], "remove_workloads"),
    ],
)
def test_a_run_that_was_not_cleaned_up_fails(
    cell: Any, folder: RunFolder, phases: list[tuple[str, str, str]], said: str
) -> None:
    """The state of a teardown before the last one is not the run's, so the last one fails."""
    write_phases(folder, phases)

    with pytest.raises(AirflowFailException, match=said):
        conclude(cell, folder)


def test_a_run_with_a_verdict_that_was_cleaned_up_is_concluded(
    cell: Any, folder: RunFolder
) -> None:
    """A try of the clean-up that failed before one that succeeded does not count."""
    write_phases(folder, [("remove_workloads", "failed", "Kafka is away"), *CLEAN])

    conclude(cell, folder)


def test_a_run_without_a_verdict_fails_whatever_its_clean_up(cell: Any, folder: RunFolder) -> None:
    """It was ended before its verdict."""
    write_phases(folder, CLEAN)
    folder.verdict.unlink()

    with pytest.raises(AirflowFailException, match="a verdict"):
        conclude(cell, folder)


@pytest.mark.parametrize(("try_number", "is_last_try"), [(1, False), (2, False), (3, True)])
def test_the_clean_up_knows_its_last_try(
    cell: Any,
    folder: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
    try_number: int,
    *,
    is_last_try: bool,
) -> None:
    """After it nothing is tried again, so it must not keep the cluster's Lease."""
    task = cell.get_task("remove_workloads")
    context = {"ti": SimpleNamespace(try_number=try_number, max_tries=task.retries)}
    monkeypatch.setitem(task.python_callable.__globals__, "get_current_context", lambda: context)
    monkeypatch.setattr(bench_life, "clean_up", lambda _, **given: given)

    given = task.python_callable(run_folder=str(folder.path))

    assert given["is_last_try"] is is_last_try


def test_a_run_that_ended_before_its_folder_was_made_fails(cell: Any) -> None:
    """The first task of a run that is marked as failed at once is skipped and has no result."""
    task = cell.get_task("require_verdict")
    ti = SimpleNamespace(xcom_pull=lambda **_: None)
    again = copy.copy(task)
    again.render_template_fields({"ti": ti})

    with pytest.raises(AirflowFailException, match="plan_cell"):
        again.python_callable(*again.op_args, **again.op_kwargs)


def conclude(cell: Any, folder: RunFolder) -> None:
    """Do what the last task does."""
    cell.get_task("require_verdict").python_callable(run_folder=str(folder.path))


def write_phases(folder: RunFolder, phases: list[tuple[str, str, str]]) -> None:
    """Write the phases of a run that has ended."""
    lines = [
        json.dumps({"at": 1, "name": name, "state": state, "detail": detail}) + "\n"
        for name, state, detail in phases
    ]
    folder.write_text(folder.phases, "".join(lines))
