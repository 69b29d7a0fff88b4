"""Deploy a policy that has passed its rehearsal: an example for your own Dags.

Each verdict of `scenario_run` is an event of the asset `lagbench/verdicts`, which starts this Dag.
It deploys the policy below if the newest verdict on exactly it, under exactly the scenario below,
is a pass. A rehearsal with another setting, SLO, seed or file of the same name does not count.
Copy this file into your folder of Dags; docs/own-dags.md says what Airflow needs for it.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Context, dag
from airflow.sdk.exceptions import AirflowSkipException

from lagbench_airflow.operators.apply_scaling_policy import ApplyScalingPolicyOperator
from lagbench_airflow.operators.verdict import VERDICTS

SCENARIO, POLICY = "quick_spike", "lag-quick"


def require_pass(context: Context) -> None:
    """Skip the task, unless what it is about to deploy has passed.

    Several verdicts may have come since the last run of this Dag, of any rehearsals. A run that you
    trigger by hand has none.
    """
    from lagbench.catalog.catalog import checked_cell
    from lagbench.results.planned_run import cell_digests

    wanted = cell_digests(checked_cell(SCENARIO, policy=POLICY)).items()
    events = context["triggering_asset_events"][VERDICTS]
    of_it = [one for one in events if wanted <= (one.extra.get("cell") or {}).items()]
    newest = max(of_it, key=lambda one: one.timestamp, default=None)
    if newest is None or newest.extra["status"] != "pass":
        raise AirflowSkipException(f"{len(events)} verdicts, {len(of_it)} of it: no pass of it")


@dag(
    schedule=[VERDICTS],
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=30),
    tags=["example"],
    description=__doc__.partition("\n")[0],
    doc_md=__doc__,
)
def deploy_after_pass() -> None:
    """Wire the deployment and its gate, which reads the same file at the same time."""
    ApplyScalingPolicyOperator(
        task_id="deploy",
        policy=POLICY,
        scaled_object="billing",
        namespace="default",
        pre_execute=require_pass,
    )


deploy_after_pass()
