"""The standing rehearsal: every night the same spike, held against a baseline and the last night.

It runs `scenario_run` with the standing scenario (Param `scenario`), so each night has its own Dag
run there, with conf, policy, seed and verdict. `compare_with_last_pass` then fails when a measure
is worse than in the baseline, or than in the last night that was no regression, by more than the
bounds stated in `lagbench/core/compare/compare.py`. Both are rehearsals of the same cell: scenario,
policy, seed, target and fidelity are the same. The numbers are in the run's `comparison.json`, in
its report and in `lagbench show RUN`.

The first night that passes becomes the baseline. A regression stays red every night until it is
accepted: `lagbench baseline RUN`. Clearing a night measures again in a Dag run of its own; the
first one stays. Unpause the Dag to switch it on.

With `more_cells` a night has several cells, each with its own verdict and gate. A night that fails,
regresses, or still runs after 90 minutes for each cell of the form's defaults is mailed to the
addresses of LAGBENCH_NOTIFY.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import (
    AsyncCallback,
    CronTriggerTimetable,
    DeadlineAlert,
    DeadlineReference,
    chain,
    dag,
    get_current_context,
    task,
    task_group,
)
from airflow.sdk.exceptions import AirflowFailException

from lagbench_airflow.night_notifier import NightNotifier, addresses
from lagbench_airflow.params import MORE_CELLS, rehearsal_params
from lagbench_airflow.task_life import wrong_input_is_final

CELL_TAKES = timedelta(hours=1, minutes=30)
PARAMS = rehearsal_params()
MORE = [line for line in str(PARAMS[MORE_CELLS].value or "").splitlines() if line.split()]
DUE_AFTER = CELL_TAKES * (1 + len(MORE))
"""Airflow needs it before a night has its conf, so it is that of a scheduled night."""

log = logging.getLogger(__name__)

# Each cell has a name of its own. A cleared one is repeated under another, and the first record
# stays.
TRIGGERED_RUN = (
    "rehearsal__{{ run_id }}{{ '' if ti.map_index < 1 else '__cell_' ~ ti.map_index }}"
    "{{ '' if ti.try_number < 2 else '__try_' ~ ti.try_number }}"
)
TRIGGERED_LAST = (
    "{{ ti.xcom_pull(task_ids='rehearse', map_indexes=ti.map_index, key='trigger_run_id') }}"
)


@task(execution_timeout=timedelta(minutes=2))
def list_cells() -> list[dict[str, Any]]:
    """Return the confs of the night's cells."""
    from lagbench_airflow.nights import cells_of_night

    with wrong_input_is_final():
        return cells_of_night(get_current_context()["params"])


@task(execution_timeout=timedelta(minutes=5), retries=1, retry_delay=timedelta(seconds=10))
def compare_with_last_pass(triggered_run: str) -> dict[str, Any]:
    """Fail on a regression beyond the stated bounds."""
    from lagbench_airflow.nights import compare_with_last_pass as compare

    with wrong_input_is_final():
        outcome = compare(triggered_run)
    for reason in outcome["reasons"]:
        log.warning("%s", reason)
    for note in outcome["notes"]:
        log.info("note: %s", note)
    if outcome["status"] in ("regressed", "undetermined"):
        raise AirflowFailException(
            f"{outcome['status']}: {'; '.join(outcome['reasons'])}. The gate fails every night "
            "until one is within the bounds again, or until you accept this one: lagbench "
            f"baseline {outcome['run_id']}"
        )
    return outcome


@dag(
    # Not at once for the past night: a bench that a user has just started is theirs.
    # run_immediately counts only for a Dag without a start_date.
    schedule=CronTriggerTimetable("30 3 * * *", timezone="UTC", run_immediately=False),
    is_paused_upon_creation=True,  # a laptop rehearses at night only on request
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=23),
    on_failure_callback=NightNotifier(to=addresses()),
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=DUE_AFTER,
        callback=AsyncCallback(NightNotifier, {"to": addresses()}),
    ),
    params=PARAMS,
    default_args={"owner": "lagbench"},
    tags=["lagbench", "rehearsal"],
    description=__doc__.partition("\n")[0],
    doc_md=__doc__,
)
def daily_spike_rehearsal() -> None:
    """Wire the rehearsal."""

    @task_group(prefix_group_id=False)
    def cell(conf: dict[str, Any]) -> None:
        rehearse = TriggerDagRunOperator(
            task_id="rehearse",
            trigger_dag_id="scenario_run",
            trigger_run_id=TRIGGERED_RUN,
            reset_dag_run=False,
            conf=conf,
            wait_for_completion=True,
            deferrable=True,
            poke_interval=10,
            allowed_states=["success"],
            failed_states=["failed"],
            execution_timeout=timedelta(hours=5),
            max_active_tis_per_dagrun=1,  # a cell begins when the one before it has ended
            doc_md="Runs the cell; a missed SLO fails here.",
        )
        chain(rehearse, compare_with_last_pass(TRIGGERED_LAST))

    cell.expand(conf=list_cells())


daily_spike_rehearsal()
