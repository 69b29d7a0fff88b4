"""Lag that begins is an event of a real Airflow, once, also over a restart of its triggerer."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.eventually import eventually
from tests.fakes.migrated_database import give_database

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.embedded.broker import Broker
from lagbench.embedded.child_server import free_port
from lagbench.orchestrator import airflow_server
from lagbench.orchestrator.airflow_environment import airflow_home
from lagbench.project import PROJECT_ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]

TOPIC, GROUP, LIMIT_SECONDS = "watched", "watching", 600
QUIET_SECONDS = 10  # some readings of the trigger, and the time in which an event is stored
DAG = f"""
from airflow.sdk import Asset, AssetWatcher, dag, task
from lagbench_airflow.triggers.conditions import Lag
from lagbench_airflow.triggers.events import ConditionEventTrigger

spikes = Asset("spikes", watchers=[AssetWatcher(name="lag", trigger=ConditionEventTrigger(
    condition=Lag(topic="{TOPIC}", group="{GROUP}", threshold_records=10, is_above=True),
    hold_seconds=1, rearm_seconds=1, least_seconds=0, poll_seconds=0.5,
))])

@task
def seen():
    return True

@dag(schedule=[spikes], catchup=False, is_paused_upon_creation=False)
def on_spike():
    seen()

on_spike()
"""


def runs(state_dir: Path) -> int:
    """Return the events so far, each of which starts a run."""
    file = airflow_home(state_dir) / "airflow.db"
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=60)) as database:
        ((count,),) = database.execute("SELECT count(*) FROM asset_event").fetchall()
        return int(count)


def await_runs(state_dir: Path, wanted: int) -> None:
    """Wait for so many events."""
    what = f"{wanted} events"
    eventually(lambda: runs(state_dir) >= wanted, what, within_seconds=LIMIT_SECONDS)


def test_a_spike_starts_one_run(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second triggerer finds the lag as the first left it; only a new beginning fires."""
    with KafkaAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([TopicSpec(TOPIC, 1)])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    group = {"bootstrap.servers": broker.bootstrap_servers, "group.id": GROUP}

    def send(count: int) -> None:
        for _ in range(count):
            producer.produce(TOPIC, b"m", partition=0)
        assert producer.flush(60) == 0

    def commit(offset: int) -> None:
        with closing(Consumer(group)) as consumer:
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)

    commit(0)
    dags, state_dir = tmp_path / "dags", tmp_path / "state"
    dags.mkdir()
    (dags / "on_spike.py").write_text(DAG)
    shutil.copy(PROJECT_ROOT / "dags" / "scenario_run.py", dags)  # the server is up when it is read
    for name in ("AIRFLOW_HOME", "AIRFLOW__CORE__PLUGINS_FOLDER", "AIRFLOW__CORE__UNIT_TEST_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(dags))
    monkeypatch.setattr(airflow_server, "READY_LIMIT_SECONDS", 900)
    give_database(state_dir)
    settings = (
        f'{{"conn_type": "kafka", "extra": {{"bootstrap.servers": "{broker.bootstrap_servers}"}}}}'
    )
    connections = {"AIRFLOW_CONN_KAFKA_DEFAULT": settings}

    pause = threading.Event()

    def lives_until(events: int) -> None:
        server = airflow_server.start_server(state_dir, connections, port=free_port())
        root = psutil.Process(server.pid)
        family = [root]
        try:
            if events == 2:  # it has read the old lag, and then the new one
                log = airflow_server.log_file(state_dir)
                eventually(
                    lambda: "watching for" in log.read_text(errors="replace"),
                    "a triggerer that watches",
                    within_seconds=LIMIT_SECONDS,
                )
                pause.wait(QUIET_SECONDS)  # nothing may come of the lag that is still there
                assert runs(state_dir) == 1
                commit(20)
                pause.wait(QUIET_SECONDS)
                send(20)
            await_runs(state_dir, events)
        finally:
            family += root.children(recursive=True)
            airflow_server.stop_server(state_dir)
            psutil.wait_procs(family, timeout=120)

    send(20)
    lives_until(1)
    lives_until(2)
    assert runs(state_dir) == 2
