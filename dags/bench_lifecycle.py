"""The bench by hand: bring it up, take it down, or tidy run folders away; a second Dag tidies.

Param `action`: `up`, `down`, or `housekeeping`, which deletes run folders older than `keep_days`,
but never one whose verdict is not *pass* (they are what one wants to look at again) unless
`including_failed` is on. Cells bring the bench up by themselves; this Dag is for people.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import Context, CronTriggerTimetable, dag, get_current_context, task

from lagbench_airflow.params import housekeeping_params, lifecycle_params
from lagbench_airflow.task_life import wrong_input_is_final

log = logging.getLogger(__name__)


@task.branch(execution_timeout=timedelta(minutes=1))
def choose_action() -> str:
    """Choose the task of the Param."""
    context: Context = get_current_context()
    return {"up": "bench_up", "down": "bench_down", "housekeeping": "tidy_run_folders"}[
        context["params"]["action"]
    ]


@task(execution_timeout=timedelta(minutes=20), retries=1, retry_delay=timedelta(seconds=5))
def bench_up() -> dict[str, Any]:
    """Start the bench and leave it up."""
    from lagbench_airflow.bench_life import bring_bench_up

    with wrong_input_is_final():
        return bring_bench_up(log.info, cell=None)


@task(execution_timeout=timedelta(minutes=5))
def bench_down() -> list[str]:
    """Stop the embedded bench; a cluster is left alone."""
    from lagbench_airflow.bench_life import take_bench_down

    return take_bench_down(was_started_here=True, keep_bench=False)


@task(execution_timeout=timedelta(minutes=30))
def tidy_run_folders() -> list[str]:
    """Delete old run folders."""
    from lagbench.results.gate import tidy_run_folders as tidy

    params = get_current_context()["params"]
    return tidy(
        keep_days=int(params["keep_days"]), including_failed=bool(params["including_failed"])
    )


@dag(
    schedule=None,
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=1),
    params=lifecycle_params(),
    default_args={"owner": "lagbench", "retries": 0},
    tags=["lagbench", "bench"],
    description=__doc__.partition("\n")[0],
    doc_md=__doc__,
)
def bench_lifecycle() -> None:
    """Wire the three actions."""
    choose_action() >> [bench_up(), bench_down(), tidy_run_folders()]


@dag(
    # Before the night's rehearsal: what it deletes is on the disk of the runs.
    schedule=CronTriggerTimetable("30 2 * * *", timezone="UTC", run_immediately=False),
    is_paused_upon_creation=True,  # a laptop deletes nothing unasked
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=1),
    params=housekeeping_params(),
    default_args={"owner": "lagbench", "retries": 0},
    tags=["lagbench", "bench"],
    description="Deletes old run folders each night.",
    doc_md="Deletes old run folders each night, as `housekeeping` of `bench_lifecycle` does by "
    "hand: never a run that did not pass, unless `including_failed` is on, and no reference of the "
    "gate.",
)
def housekeeping() -> None:
    """Wire the one action."""
    tidy_run_folders()


bench_lifecycle()
housekeeping()
