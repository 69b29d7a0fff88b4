"""Swap three scaling policies under one long load and compare them: an example for your own Dags.

Each policy is in force for a while, on the ScaledObject that scales your consumers; lag and
replicas are recorded meanwhile. **compare** shows what each one cost. **restore** puts back what
was there, also after a failure. Copy this file into your folder of Dags; docs/own-dags.md says what
Airflow needs for it.

* The load goes on beside the Dag, and should be the same in each period: your usual traffic, or a
  generator. The order is that of the list. A difference between periods may be the load's: for a
  proof rehearse the policies in pairs (`lagbench new experiment`).
* **apply_...** keeps the target, Kafka, topic and group of your object; the result has the
  difference.
"""

from __future__ import annotations

import itertools
import logging
import time
from contextlib import closing
from datetime import timedelta
from typing import Any

from airflow.sdk import Param, TaskGroup, chain, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from lagbench.core.scenario.run_names import RUN_ID_ANNOTATION
from lagbench_airflow.hooks.kafka import KafkaHook
from lagbench_airflow.hooks.kube import open_kube
from lagbench_airflow.operators.apply_scaling_policy import ApplyScalingPolicyOperator
from lagbench_airflow.sensors.consumer_lag import ConsumerLagDrainedSensor

log = logging.getLogger(__name__)

POLICIES = ("lag-default", "lag-fast-up-slow-down", "lag-even-distribution")  # names, or files
SECONDS_BETWEEN_LOOKS = 1.0
PARAMS = {
    "topic": Param("orders", type="string"),
    "group": Param("billing", type="string"),
    "deployment": Param("billing", type="string"),
    "scaled_object": Param("billing", type="string"),
    "namespace": Param("default", type="string"),
    "at_rest": Param(1000, type="integer", minimum=0, description="lag at which a period begins"),
    "minutes": Param(20, type="number", minimum=0.05, description="of each policy"),
}


@task(execution_timeout=timedelta(hours=2))
def measure(policy: str, applied: dict[str, Any]) -> dict[str, Any]:
    """Record lag and replicas while the policy is in force; fail if another one is.

    So it does when it is cleared alone: clear **apply_...** of its period, too.
    """
    given = get_current_context()["params"]
    lags, pods = [], []
    ends_at = time.monotonic() + 60 * given["minutes"]
    with (
        closing(KafkaHook().open_lag_reader()) as reader,
        closing(open_kube()) as kube,
    ):
        there = kube.elsewhere(given["namespace"])
        while time.monotonic() < ends_at:
            found = there.get(applied["kind"], applied["name"]) or {"metadata": {}}
            mark = (found["metadata"].get("annotations") or {}).get(RUN_ID_ANNOTATION)
            if (mark, found["metadata"].get("generation")) != (
                applied["mark"],
                applied["generation"],
            ):
                raise AirflowFailException(
                    f"{policy} is not in force: {mark or 'somebody else'} has changed "
                    f"{applied['kind']}/{applied['name']}. Clear apply_... of this period, too"
                )
            lags.append(sum(reader.lags(given["group"], given["topic"]).values()))
            workload = there.get("Deployment", given["deployment"])
            pods.append(int(workload["spec"]["replicas"]))
            time.sleep(SECONDS_BETWEEN_LOOKS)
    return {
        "policy": policy,
        "peak_lag": max(lags),
        "mean_lag": round(sum(lags) / len(lags)),
        "mean_replicas": round(sum(pods) / len(pods), 2),
        "changes": sum(now != before for before, now in itertools.pairwise(pods)),
    }


@task
def compare(measured: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Show the policies, the one with the least lag first."""
    best_first = sorted(measured, key=lambda one: one["mean_lag"])
    for one in best_first:
        log.info(
            "%(policy)s: mean lag %(mean_lag)s, peak %(peak_lag)s, %(mean_replicas)s replicas, "
            "%(changes)s changes",
            one,
        )
    return best_first


@dag(
    schedule=None,
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=8),
    params=PARAMS,
    tags=["example"],
    description=__doc__.partition("\n")[0],
    doc_md=__doc__,
)
def compare_policies() -> None:
    """Wire one period for each policy."""
    place = {"scaled_object": "{{ params.scaled_object }}", "namespace": "{{ params.namespace }}"}
    again = {"retries": 2, "retry_delay": timedelta(seconds=10)}
    lag = {"topic": "{{ params.topic }}", "group": "{{ params.group }}"}
    measured, last = [], None
    for number, policy in enumerate(POLICIES):
        with TaskGroup(f"period_{number + 1}", group_display_name=policy, prefix_group_id=False):
            rests = ConsumerLagDrainedSensor(
                task_id=f"rests_{number + 1}",
                threshold_records="{{ params.at_rest }}",
                timeout=1800,
                poke_interval=5,
                deferrable=True,
                **lag,
            )
            swap = ApplyScalingPolicyOperator(
                task_id=f"apply_{number + 1}", policy=policy, **place, **again
            )
            result = measure.override(task_id=f"measure_{number + 1}")(policy, swap.output)
            chain(rests, swap, result)
        if last is not None:
            chain(last, rests)
        measured.append(result)
        last = result
    # No setup: the teardown of one that has failed would not run, and its policy would stay.
    restore = ApplyScalingPolicyOperator(
        task_id="restore", undo="apply_1", **place, **again
    ).as_teardown()
    chain(compare(measured), restore)


compare_policies()
