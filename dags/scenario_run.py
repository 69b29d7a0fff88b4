"""One cell: a scenario under one scaling policy, from bench up to the verdict.

Each run is a rehearsal. It brings the bench up, starts the consumers at the policy's floor, puts
the policy into force, offers the load once, waits until the lag has drained and the replicas are
back at the floor while the base load continues, ends that load, waits until the lag is 0 and the
group is stable, freezes the run, accounts for every message with Spark, and judges the run against
the scenario's SLOs.

* **plan_cell** rejects wrong input before anything starts and makes the run folder.
* **approve** asks a person before a run against a cluster, for four hours.
* A run that misses an SLO fails **slo_gate**, after the report is written.
* **remove_workloads** runs whenever **bench_up** or **create_topics** did. When the accounting
  failed, the topics are copied into the run folder before they go: `lagbench account RUN` repeats
  it.
* **require_verdict** fails the run when it was ended before its verdict, or when the last try of
  **remove_workloads** or **bench_down** failed.
* The run's conf, policy, seed and versions are in `plan_cell`'s result and in the run folder's
  `manifest.json`; the verdict is `verdict`'s result, with a link to the report, and an
  event of the asset `lagbench/verdicts`.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial
from typing import Any

from airflow.sdk import Context, TaskGroup, chain, dag, get_current_context, setup, task, teardown
from airflow.sdk.exceptions import AirflowFailException

from lagbench.core.cluster.spark_connection import time_limit_seconds
from lagbench.errors import LagbenchError
from lagbench.printed_commands import runnable
from lagbench.results.cell_run import CellRun
from lagbench.results.phases import phase
from lagbench_airflow.operators.apply_run_policy import ApplyRunPolicyOperator
from lagbench_airflow.operators.approve import ApproveRunOperator
from lagbench_airflow.operators.fence_run import FenceRunOperator
from lagbench_airflow.operators.offered_load import InjectSpikeOperator, StopTailOperator
from lagbench_airflow.operators.run_consumers import RunConsumersOperator
from lagbench_airflow.operators.run_spark_consumer import RunCellsSparkConsumerOperator
from lagbench_airflow.operators.start_companions import (
    FollowRunOperator,
    StartActionsOperator,
    StartRecorderOperator,
)
from lagbench_airflow.operators.submit_spark_job import SubmitSparkJobOperator
from lagbench_airflow.operators.verdict import (
    VERDICTS,
    ReconcileCheckOperator,
    RunRebalancesCheckOperator,
    VerdictOperator,
)
from lagbench_airflow.params import scenario_run_params
from lagbench_airflow.sensors.run_sensor import (
    ACTIONS_PLAYED,
    GROUP_SETTLED,
    GROUP_STABLE,
    LAG_AT_REST,
    LAG_BUILDS_UP,
    LAG_DRAINED,
    REPLICAS_SETTLED,
    TRAFFIC_FINISHED,
    RunSensor,
)
from lagbench_airflow.task_life import REFUSED, ends_when_killed, wrong_input_is_final

log = logging.getLogger(__name__)

# The name of the run's folder below LAGBENCH_RUNS_DIR: results have no path of a machine.
RUN_FOLDER = "{{ ti.xcom_pull(task_ids='plan_cell')['run_id'] }}"
RUN_FOLDER_IF_ANY = "{{ (ti.xcom_pull(task_ids='plan_cell') or {}).get('run_id', '') }}"
IS_SETTLED = "{{ (ti.xcom_pull(task_ids='replicas_settled') or {}).get('reached') }}"
MINUTES = timedelta(minutes=1)
# A scenario may offer load for a day and allow a day each for drain and settling.
LONGEST_WAIT = timedelta(days=1, hours=1)
LONGEST_RUN = timedelta(days=4)
ANSWER_WITHIN = timedelta(hours=4)  # other runs wait meanwhile


@task(execution_timeout=2 * MINUTES)
def plan_cell() -> dict[str, Any]:
    """Reject wrong input; create the run folder."""
    from lagbench_airflow.params import plan_run

    context: Context = get_current_context()
    with wrong_input_is_final():
        try:
            planned = plan_run(context["params"], dag_run=context["dag_run"].run_id)
        except LagbenchError as error:  # for the run's page: there is no run folder to say it in
            context["ti"].xcom_push(REFUSED, runnable(str(error)))
            raise
    log.info("run folder: %s", planned.pop("run_folder"))
    return planned


@setup
@task(execution_timeout=20 * MINUTES, retries=1, retry_delay=timedelta(seconds=5))
def bench_up(run_folder: str) -> dict[str, Any]:
    """Start the bench, or take the cluster's Lease; remove leftovers of a crashed run."""
    from lagbench.adapters.runs.run_manifest import add_versions
    from lagbench_airflow.bench_life import bring_bench_up

    cell = CellRun.open(run_folder)
    with wrong_input_is_final(), ends_when_killed(), phase(cell.folder, "bench_up"):
        up = bring_bench_up(log.info, cell=cell)
        cell.update_manifest(cluster={"kubernetes": up["kubernetes"]})
        for group in cell.groups:
            add_versions(group.folder, up["versions"])
        return up


@setup
@task(execution_timeout=5 * MINUTES, retries=1, retry_delay=timedelta(seconds=5))
def create_topics(run_folder: str) -> dict[str, int]:
    """Create the run's topics."""
    from lagbench_airflow.bench_life import create_run_topics

    cell = CellRun.open(run_folder)
    with wrong_input_is_final(), ends_when_killed(), phase(cell.folder, "create_topics"):
        return create_run_topics(cell)


@task(execution_timeout=MINUTES)
def slo_gate(verdict: dict[str, Any]) -> None:
    """Fail the run if its verdict is not pass, after everything is written."""
    if verdict["status"] != "pass":
        reasons = "; ".join(verdict["reasons"])
        raise AirflowFailException(f"{verdict['status']}: {reasons}. Report: {verdict['report']}")


@teardown(on_failure_fail_dagrun=True)
@task(execution_timeout=15 * MINUTES, retries=2, retry_delay=timedelta(seconds=5))
def remove_workloads(run_folder: str) -> dict[str, Any]:
    """Delete policies, pods, topics and groups; release the cluster's Lease.

    If the accounting failed, the topics are copied into the run folder unchanged before they are
    deleted; a retry continues with the next topic.
    """
    from lagbench_airflow.bench_life import clean_up

    ti = get_current_context()["ti"]
    cell = CellRun.open(run_folder)
    with phase(cell.folder, "remove_workloads"):
        is_last_try = ti.try_number > ti.max_tries
        return clean_up(log.info, folder=cell.folder, is_last_try=is_last_try)


@teardown(on_failure_fail_dagrun=True)
@task(execution_timeout=5 * MINUTES, retries=1, retry_delay=timedelta(seconds=5))
def bench_down(run_folder: str) -> list[str]:
    """Stop the embedded bench if this run started it and keep_bench is off."""
    from lagbench_airflow.bench_life import is_own_bench, take_bench_down

    context: Context = get_current_context()
    folder = CellRun.open(run_folder).folder
    with phase(folder, "bench_down"):
        return take_bench_down(
            was_started_here=is_own_bench(folder), keep_bench=bool(context["params"]["keep_bench"])
        )


@teardown(on_failure_fail_dagrun=True)
@task(execution_timeout=MINUTES)
def require_verdict(run_folder: str) -> None:
    """Fail a run that ended before its verdict, or that was not cleaned up.

    A run that a user marks as failed continues with its teardowns, and the other tasks are skipped.
    Airflow 3.3.2 then marks the run as a success, because skipped tasks count as successful. Nor
    does it count a failed teardown that has another teardown behind it: of the teardowns, only this
    task's state is part of the run's. It has no setup upstream, because Airflow skips a teardown
    whose setups are all skipped, as they are in a run that is marked as failed before ``bench_up``.
    """
    from lagbench.embedded.kept_log import how_to_account
    from lagbench.orchestrator.opened_clusters import clean_up_failures
    from lagbench.project import state_dir

    if not run_folder:
        raise AirflowFailException("the run ended before plan_cell had made its run folder")
    folder = CellRun.open(run_folder).folder
    problems = [f"the clean-up failed: {failure}" for failure in clean_up_failures(folder.path)]
    if not folder.verdict.is_file():
        problems.insert(0, f"the run ended without a verdict{how_to_account(state_dir(), folder)}")
    if problems:
        raise AirflowFailException(runnable(f"{'; '.join(problems)}; see {folder.path}"))


@dag(
    schedule=None,
    catchup=False,
    max_active_runs=1,  # one cell at a time: two would share brokers, cores and numbers
    dagrun_timeout=LONGEST_RUN,
    params=scenario_run_params(),
    render_template_as_native_obj=False,
    default_args={"owner": "lagbench", "retries": 0},
    tags=["lagbench", "rehearsal"],
    description=__doc__.partition("\n")[0],
    doc_md=__doc__,
)
def scenario_run() -> None:
    """Wire one cell."""
    cell = {"run_folder": RUN_FOLDER}
    again = {"retries": 2, "retry_delay": timedelta(seconds=5)}
    wait = {**cell, **again, "execution_timeout": LONGEST_WAIT}
    act = {**cell, **again, "execution_timeout": 10 * MINUTES}
    start = {**act, "execution_timeout": 20 * MINUTES}  # of both groups: on a cluster 420 s each

    # The operator adds the time for the run's messages, which are known behind the fence.
    compute = {**cell, **again, "execution_timeout": timedelta(seconds=time_limit_seconds(0))}

    group = partial(TaskGroup, prefix_group_id=False)  # the ids of tasks stay as they are stored
    with group("bench", group_display_name="Bench and topics") as bench:
        plan = plan_cell()
        approve = ApproveRunOperator(
            task_id="approve",
            subject="Run {{ params.scenario }} against the cluster?",
            body="{{ ti.xcom_pull(task_ids='plan_cell') | tojson }}",
            defaults=ApproveRunOperator.REJECT,
            response_timeout=ANSWER_WITHIN,
            fail_on_reject=True,
            doc_md="Asks before a run against a cluster; the embedded bench never asks.",
        )
        up = bench_up(RUN_FOLDER)
        topics = create_topics(RUN_FOLDER)
        chain(plan, approve, up, topics, FollowRunOperator(task_id="follow_run", **act))
    with group("load", group_display_name="Consumers, policy, spike") as load:
        chain(
            # By the kind of the consumers one of the two is skipped.
            [
                RunConsumersOperator(task_id="run_consumers", **start),
                RunCellsSparkConsumerOperator(task_id="run_spark_consumer", **start),
            ],
            StartRecorderOperator(
                task_id="start_recorder", trigger_rule="none_failed_min_one_success", **act
            ),
            ApplyRunPolicyOperator(task_id="apply_scaling_policy", **start),
            RunSensor(task_id="group_stable", until=GROUP_STABLE, **wait),
            StartActionsOperator(task_id="start_actions", **act),
            InjectSpikeOperator(task_id="inject_spike", **act),
        )
    with group("account", group_display_name="Account with Spark") as accounting:
        fence = FenceRunOperator(task_id="fence_run", **act)
        # Landing, accounting and timeline in one session: three starts of Spark took twice as long
        # for a short run (149 s against 75 s on a busy machine).
        account = SubmitSparkJobOperator(task_id="account_for_messages", **compute)
        chain(fence, account)
    with group("wait", group_display_name="Lag drains, replicas settle") as drain:
        chain(
            RunSensor(task_id="lag_builds_up", until=LAG_BUILDS_UP, **wait),
            RunSensor(task_id="traffic_finished", until=TRAFFIC_FINISHED, **wait),
            RunSensor(task_id="lag_at_rest", until=LAG_AT_REST, **wait),
            RunSensor(
                task_id="actions_played",
                until=ACTIONS_PLAYED,
                on_success_callback=account.begin,
                **wait,
            ),
            RunSensor(task_id="replicas_settled", until=REPLICAS_SETTLED, **wait),
            # Between the two the base load continues: a scale-down into an idle group shows
            # nothing.
            StopTailOperator(task_id="stop_tail", is_settled=IS_SETTLED, **act),
            RunSensor(task_id="lag_drained", until=LAG_DRAINED, **wait),
            RunSensor(task_id="group_settled", until=GROUP_SETTLED, **wait),
        )
    with group("judge", group_display_name="Judge"):
        checks = RunRebalancesCheckOperator(task_id="rebalance_count_check", **act)
        judge = VerdictOperator(task_id="verdict", outlets=[VERDICTS], **act)
        gate = slo_gate(judge.output)
        chain(checks, ReconcileCheckOperator(task_id="reconcile_check", **act), judge)
    with group("clean_up", group_display_name="Clean up"):
        clean = remove_workloads(RUN_FOLDER)
        down = bench_down(RUN_FOLDER)
        conclude = require_verdict(RUN_FOLDER_IF_ANY)

    chain(bench, load, drain, accounting, checks)
    chain(judge, clean, down, conclude)
    # The gate is beside the teardown, not before it: a teardown that may fail the run hides the
    # state of the tasks upstream of it, and a failed cell would count as a success.
    judge >> gate
    # Setup and teardown belong together: the clean-up runs even if only bench_up ran.
    up >> clean
    topics >> clean
    up >> down


scenario_run()
