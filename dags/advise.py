"""The cheapest policy that holds an SLO: searched, rehearsed if you ask, and written if you agree.

* **check** rejects wrong input before anything starts.
* **search** simulates `candidates` policies. It fails when no policy can hold the SLO, or when the
  data are not enough; the reasons are in its log and in the folder of the advice.
* With `prove`, the pick, the runner-up and the present policy are rehearsed in two pairs: Dag runs
  of `scenario_run`, in a drawn order. A run that is kept already is not repeated.
* **approve** waits for your answer (required actions) for a week, then it counts as rejected.
* **write_policy** writes the policy as a new file: `write_to` below a folder of
  LAGBENCH_ALLOWED_FOLDERS, else in the folder of the advice. Nothing is ever applied.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import chain, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from lagbench_airflow.operators.approve import ApproveAdviceOperator, can_be_answered
from lagbench_airflow.operators.rehearse_experiment_cell import (
    RECORD_PROOF,
    RehearsePolicyOfAdviceOperator,
)
from lagbench_airflow.params import advice_params
from lagbench_airflow.task_life import wrong_input_is_final

log = logging.getLogger(__name__)

MOST_PROOF_RUNS = 6
"""Three policies in two pairs."""
LONGEST_RUN = timedelta(hours=5)
ANSWER_WITHIN = timedelta(days=7)
FOLDER = "{{ ti.xcom_pull(task_ids='search')['folder'] }}"
SUMMARY = "(ti.xcom_pull(task_ids='keep_proof') or ti.xcom_pull(task_ids='search'))['summary']"


@task(execution_timeout=timedelta(minutes=5))
def check() -> None:
    """Reject wrong input."""
    from lagbench_airflow.advice_runs import require_valid

    with wrong_input_is_final():
        require_valid(get_current_context()["params"], has_people=can_be_answered())


@task(execution_timeout=timedelta(hours=3))
def search() -> dict[str, Any]:
    """Find the policy; write the folder of the advice."""
    from lagbench_airflow.advice_runs import search_and_write

    with wrong_input_is_final():
        return search_and_write(get_current_context()["params"], log.info)


@task(task_id=RECORD_PROOF, execution_timeout=timedelta(minutes=5))
def record_proof(folder: str) -> dict[str, Any]:
    """Draw and record the order of the rehearsals."""
    from lagbench_airflow.advice_runs import record_proof as record

    params = get_current_context()["params"]
    if not params["prove"]:
        raise AirflowSkipException("prove is off in the conf")
    with wrong_input_is_final():
        return record(folder, params, most=MOST_PROOF_RUNS)


@task(
    execution_timeout=timedelta(minutes=15),
    retries=1,
    retry_delay=timedelta(seconds=10),
    trigger_rule="none_failed",
)
def keep_proof(folder: str) -> dict[str, Any]:
    """Set what was measured beside what was predicted."""
    from lagbench_airflow.advice_runs import keep_proof as keep

    params = get_current_context()["params"]
    if not params["prove"]:
        raise AirflowSkipException("prove is off in the conf")
    return keep(folder, params)


@task(execution_timeout=timedelta(minutes=5))
def write_policy(folder: str) -> str:
    """Write the approved policy as a new file."""
    from lagbench_airflow.advice_runs import write_policy as write

    with wrong_input_is_final():
        return write(folder, get_current_context()["params"])


@dag(
    schedule=None,
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=ANSWER_WITHIN + MOST_PROOF_RUNS * LONGEST_RUN + timedelta(days=1),
    params=advice_params(),
    render_template_as_native_obj=False,
    default_args={"owner": "lagbench", "retries": 0},
    tags=["lagbench", "advice"],
    description=__doc__.partition("\n")[0],
    doc_md=__doc__,
)
def advise() -> None:
    """Wire the advice."""
    runs = [
        RehearsePolicyOfAdviceOperator(
            number=number,
            execution_timeout=LONGEST_RUN,
            retry_delay=timedelta(seconds=10),
            doc_md="Rehearses one policy of the proof, if there is one and it is not kept yet.",
        )
        for number in range(MOST_PROOF_RUNS)
    ]
    approve = ApproveAdviceOperator(
        task_id="approve",
        subject="Write the advised policy for {{ params.scenario }}?",
        body=f"{{{{ {SUMMARY} }}}}",
        defaults=ApproveAdviceOperator.REJECT,
        response_timeout=ANSWER_WITHIN,
        trigger_rule="none_failed",
        doc_md="Asks whether to write the policy.",
    )
    chain(
        check(),
        search(),
        record_proof(FOLDER),
        *runs,
        keep_proof(FOLDER),
        approve,
        write_policy(FOLDER),
    )


advise()
