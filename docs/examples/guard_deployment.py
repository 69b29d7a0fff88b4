"""Guard the restart of a Deployment of consumers: an example for your own Dags.

The lag is drained before, the rebalances are counted during, and the replicas have settled and the
lag has drained again after. The run fails if one of them does not hold. Copy this file into your
folder of Dags; docs/own-dags.md says what Airflow needs for it.

* **rebalances_during** watches the group while the Deployment restarts. Only rebalances after its
  first look count, so **is_watched** waits for that look before **restart** begins.
* A retry of **restart** begins another rollout.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Param, chain, dag, get_current_context, task

from lagbench_airflow.operators.rebalance_count_check import (
    WATCHED_FROM,
    RebalanceCountCheckOperator,
)
from lagbench_airflow.sensors.consumer_group import ConsumerGroupStableSensor
from lagbench_airflow.sensors.consumer_lag import ConsumerLagDrainedSensor
from lagbench_airflow.sensors.replicas import ReplicasSettledSensor

MINUTES = timedelta(minutes=1)
LAG = {"topic": "{{ params.topic }}", "group": "{{ params.group }}"}
IN_PROGRESS = 100  # messages that your consumers have in progress under their usual load
ROLLOUT = 1 * MINUTES  # longer than your rollout takes
REBALANCES = 6  # for a rollout of three pods: one joins, one leaves, three times


@task.sensor(poke_interval=2, timeout=120, mode="reschedule")
def is_watched() -> bool:
    """Wait until the group is watched."""
    ti = get_current_context()["ti"]
    return ti.xcom_pull(task_ids="rebalances_during", key=WATCHED_FROM) is not None


@task
def restart() -> None:
    """Restart the Deployment as `kubectl rollout restart` does; replace this by your change."""
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook

    context = get_current_context()
    at = {"kubectl.kubernetes.io/restartedAt": context["ti"].start_date.isoformat()}
    hook = KubernetesHook("kubernetes_default")
    hook.apps_v1_client.patch_namespaced_deployment(
        context["params"]["deployment"],
        context["params"]["namespace"],
        {"spec": {"template": {"metadata": {"annotations": at}}}},
    )


@dag(
    schedule=None,
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=60 * MINUTES,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    params={
        "topic": Param("orders", type="string"),
        "group": Param("billing", type="string"),
        "deployment": Param("billing", type="string"),
        "namespace": Param("default", type="string"),
    },
    tags=["example"],
    description=__doc__.partition("\n")[0],
    doc_md=__doc__,
)
def guard_deployment() -> None:
    """Wire the guard."""
    wait = {"deferrable": True, "poke_interval": 5, "timeout": 10 * MINUTES}
    drained = {**wait, **LAG, "threshold_records": IN_PROGRESS, "hold": 5}

    before = ConsumerLagDrainedSensor(task_id="lag_drained_before", **drained)
    during = RebalanceCountCheckOperator(
        task_id="rebalances_during",
        group=LAG["group"],
        window=ROLLOUT,
        max_rebalances=REBALANCES,
        deferrable=True,
    )
    settled = ReplicasSettledSensor(
        task_id="replicas_settled",
        deployment="{{ params.deployment }}",
        namespace="{{ params.namespace }}",
        min_replicas=1,
        hold=5,
        **wait,
    )
    stable = ConsumerGroupStableSensor(task_id="group_stable", hold=2, **LAG, **wait)
    after = ConsumerLagDrainedSensor(task_id="lag_drained_after", **drained)

    chain(before, during)
    chain(before, is_watched(), restart(), settled, stable, after)


guard_deployment()
