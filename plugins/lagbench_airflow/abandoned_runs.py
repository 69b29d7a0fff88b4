"""Mark Dag runs of ended processes as failed.

A killed ``airflow dags test`` leaves its Dag run *running* in the database; a scheduler started
later would continue it, in the middle, on a bench that no longer exists. Run this as
``python -m lagbench_airflow.abandoned_runs`` while there is no scheduler and no other run.
"""

from __future__ import annotations

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, State, TaskInstanceState
from sqlalchemy import select, update

from lagbench.catalog.catalog_files import list_experiments


def own_dags() -> list[str]:
    """Return the ids of the bench's Dags."""
    named = ["scenario_run", "daily_spike_rehearsal", "bench_lifecycle", "housekeeping", "advise"]
    return [*named, *(f"experiment_{name}" for name in list_experiments())]


def fail_abandoned_runs() -> list[str]:
    """Mark every unfinished run of the bench's Dags failed, with its unfinished tasks."""
    with create_session() as session:
        unfinished = State.unfinished_dr_states
        wanted = select(DagRun).where(DagRun.dag_id.in_(own_dags()), DagRun.state.in_(unfinished))
        runs = list(session.scalars(wanted))
        for run in runs:
            of_run = (TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)
            is_open = TaskInstance.state.in_([s for s in State.unfinished if s is not None])
            failed = update(TaskInstance).values(state=TaskInstanceState.FAILED)
            session.execute(failed.where(*of_run, is_open))
            run.set_state(DagRunState.FAILED)
        return [run.run_id for run in runs]


if __name__ == "__main__":
    for run_id in fail_abandoned_runs():
        print(run_id)  # noqa: T201
