"""Observe a real spike from its begin: an example for your own Dags.

A watcher in the triggerer reads the lag of your group. When it has been above a limit for 30 s, an
event of the asset `spikes` starts this Dag: `lagbench observe` records the spike and judges it. A
second event comes only after the lag was below the limit for five minutes. Copy this file into
your folder of Dags; docs/own-dags.md says what Airflow needs for it.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Asset, AssetWatcher, dag, task

from lagbench_airflow.triggers.conditions import Lag
from lagbench_airflow.triggers.events import ConditionEventTrigger

TOPIC, GROUP = "orders", "billing"
SPIKE = 50_000  # messages that your consumers have not before them under their usual load
spikes = Asset(
    "spikes",
    watchers=[
        AssetWatcher(
            name="lag",
            trigger=ConditionEventTrigger(
                condition=Lag(topic=TOPIC, group=GROUP, threshold_records=SPIKE, is_above=True),
                hold_seconds=30,
                rearm_seconds=300,
                least_seconds=1800,
            ),
        )
    ],
)


@task.bash(execution_timeout=timedelta(minutes=20))
def observe() -> str:
    """Record the group for a quarter of an hour."""
    servers = "{{ conn.kafka_default.extra_dejson['bootstrap.servers'] }}"
    return (
        f"lagbench observe --group {GROUP} --topic {TOPIC} --for 15m --bootstrap-servers {servers}"
    )


@dag(
    schedule=[spikes],
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=30),
    tags=["example"],
    description=__doc__.partition("\n")[0],
    doc_md=__doc__,
)
def observe_spikes() -> None:
    """Wire the observation."""
    observe()


observe_spikes()
