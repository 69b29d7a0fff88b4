"""One Dag for each file of include/catalog/experiments: its cells, compared by pairs of runs.

Each run is a Dag run of `scenario_run`, in the order that the file's seed has drawn. The first task
checks the cells and records the order, the last one writes `result.md`. An experiment with a
`schedule` starts by itself once you unpause it: `experiment_aa_quick_spike` measures the noise
floor every Sunday.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable, chain, dag, task

from lagbench.catalog.catalog_files import list_experiments
from lagbench.catalog.experiments import load_experiment
from lagbench.core.compare.experiment import Experiment, draw_schedule
from lagbench_airflow.operators.rehearse_experiment_cell import (
    RECORD_ORDER,
    RehearseExperimentCellOperator,
)
from lagbench_airflow.task_life import wrong_input_is_final

log = logging.getLogger(__name__)

FOLDER = f"{{{{ ti.xcom_pull(task_ids='{RECORD_ORDER}')['folder'] }}}}"
LONGEST_RUN = timedelta(hours=5)
DAYS_PER_EXPECTED_HOUR = 1
"""A run may wait for other runs, and a failed one for a person who clears it."""


@task(task_id=RECORD_ORDER, execution_timeout=timedelta(minutes=5))
def record_order(name: str) -> dict[str, Any]:
    """Check the cells; record the drawn order."""
    from lagbench.results.executions import record_order as record
    from lagbench_airflow.hooks.target import target_name

    with wrong_input_is_final():
        return record(name, target_name())


@task(execution_timeout=timedelta(minutes=15), retries=1, retry_delay=timedelta(seconds=10))
def write_result(folder: str) -> dict[str, Any]:
    """Compare the cells by their pairs; write result.json and result.md."""
    from lagbench.results.executions import write_result as write

    found = write(folder)
    for line in (*found["differences"], *found["shown"], *found["notes"]):
        log.info("%s", line)
    return found


def experiment_dag(experiment: Experiment) -> None:
    """Make the Dag of an experiment."""
    hours = experiment.hours

    @dag(
        dag_id=f"experiment_{experiment.name}",
        schedule=None
        if experiment.schedule is None
        else CronTriggerTimetable(experiment.schedule, timezone="UTC", run_immediately=False),
        is_paused_upon_creation=None if experiment.schedule is None else True,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(days=1 + DAYS_PER_EXPECTED_HOUR * hours),
        default_args={"owner": "lagbench"},
        tags=["lagbench", "experiment"],
        description=experiment.question,
        doc_md=f"**{experiment.title}**\n\n{experiment.question}\n\n{experiment.pairs} "
        f"pair{'s' if experiment.pairs > 1 else ''}, about {hours:g} hours.\n\n{__doc__}",
    )
    def compare_cells() -> None:
        runs = [
            RehearseExperimentCellOperator(
                run_key=run.key,
                execution_timeout=LONGEST_RUN,
                retry_delay=timedelta(seconds=10),
                doc_md=f"Pair {run.pair}, cell {run.cell}, seed {run.seed}.",
            )
            for run in draw_schedule(experiment).runs
        ]
        chain(record_order(experiment.name), *runs, write_result(FOLDER))

    compare_cells()


for found in list_experiments():
    experiment_dag(load_experiment(found))
