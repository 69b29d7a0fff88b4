"""Deploy a policy that has passed its rehearsal: an example for your own Dags.

Each verdict of `scenario_run` is an event of the asset `lagbench/verdicts`, which starts this Dag.
It goes on only for a pass of the scenario and the policy below. Copy this file into your folder of
Dags; docs/own-dags.md says what Airflow needs for it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import chain, dag, get_current_context, task

from lagbench_airflow.operators.apply_scaling_policy import ApplyScalingPolicyOperator
from lagbench_airflow.operators.verdict import VERDICTS

SCENARIO, POLICY = "quick_spike", "lag-quick"


@task.short_circuit
def has_passed() -> bool:
    """Go on with the newest of the verdicts that started this run, if it is the wanted pass."""
    events = get_current_context()["triggering_asset_events"][VERDICTS]
    wanted: dict[str, Any] = {"scenario": SCENARIO, "policy": POLICY, "status": "pass"}
    # A run that you trigger by hand has no event.
    return bool(events) and wanted.items() <= events[-1].extra.items()


@dag(
    schedule=[VERDICTS],
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=30),
    tags=["example"],
    doc_md=__doc__,
)
def deploy_after_pass() -> None:
    """Wire the gate and the deployment."""
    deploy = ApplyScalingPolicyOperator(
        task_id="deploy", policy=POLICY, scaled_object="billing", namespace="default"
    )
    chain(has_passed(), deploy)


deploy_after_pass()
