"""Work a topic off with lagbench's consumer on Spark: an example for your own Dags.

**consume** starts master, workers and driver in the namespace of the connection, and ends them when
the group has no lag left; its log has the driver's lines. **end** ends what a crash leaves behind.
The topic has messages of lagbench's producer. Copy this file into your folder of Dags;
docs/own-dags.md says what Airflow needs for it.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Param, dag

from lagbench_airflow.operators.run_spark_consumer import RunSparkConsumerOperator

PARAMS = {
    "topic": Param("orders", type="string"),
    "group": Param("billing", type="string"),
    "scenario": Param("spark_consumer", type="string", description="whose consumer it is"),
}


@dag(
    schedule=None,
    catchup=False,
    max_active_runs=1,  # a namespace has one such consumer at a time
    dagrun_timeout=timedelta(hours=8),
    params=PARAMS,
    tags=["example"],
    description=__doc__.partition("\n")[0],
    doc_md=__doc__,
)
def work_off_with_spark() -> None:
    """Wire the consumer and its end."""
    consume = RunSparkConsumerOperator(
        task_id="consume",
        topic="{{ params.topic }}",
        group="{{ params.group }}",
        scenario="{{ params.scenario }}",
        replicas=2,
        timeout=timedelta(hours=7).total_seconds(),
    )
    # No setup: the teardown of one that has failed would not run.
    consume >> RunSparkConsumerOperator(task_id="end", ends=consume.task_id).as_teardown()


work_off_with_spark()
