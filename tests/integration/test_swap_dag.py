"""The example that swaps three policies, by a real Airflow on localkube and its autoscaler."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.migrated_database import give_database
from tests.fakes.user_environment import as_a_user
from tests.integration.autoscaler_setting import NAMESPACE, LagControl, running_setting

from lagbench.embedded.broker import Broker
from lagbench.orchestrator.airflow_environment import (
    airflow_command,
    airflow_environment,
    airflow_home,
)
from lagbench.project import PROJECT_ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAME, DAG = "shop", "compare_policies"
FLAGS = ("--hpa-sync-seconds", "1", "--downscale-stabilization-seconds", "3")


def test_three_policies_are_swapped_and_the_first_one_is_back(
    broker: Broker, tmp_path: Path
) -> None:
    """Each is in force on the same group, with a difference; behind them nothing is left of them.

    The object was made without server-side apply, as a user's is.
    """
    lag = LagControl(broker.bootstrap_servers, "swapped", "swapping", partitions=6)
    lag.prepare()
    theirs: dict[str, Any] = {
        "scaleTargetRef": {"name": NAME},
        "minReplicaCount": 1,
        "maxReplicaCount": 3,
        "pollingInterval": 1,
        "advanced": {"restoreToOriginalReplicaCount": True},
        "triggers": [lag.trigger()],
    }
    with running_setting(tmp_path / "cluster", *FLAGS) as setting:
        setting.deployment(NAME, replicas=1)
        setting.create("ScaledObject", NAME, theirs)
        kubeconfig = next((tmp_path / "cluster").rglob("kubeconfig*"))
        dag_run(tmp_path, broker, kubeconfig, lag)
        left = setting.get("ScaledObject", NAME)

    assert left is not None
    assert left["spec"] == theirs
    results = xcoms(tmp_path)
    diffs = [results[f"apply_{n}", "return_value"]["diff"] for n in (1, 2, 3)]
    assert "-  maxReplicaCount: 3" in diffs[0]
    assert "restoreToOriginalReplicaCount" in diffs[0]
    assert all(diffs)
    assert len(results["compare", "return_value"]) == 3


def dag_run(folder: Path, broker: Broker, kubeconfig: Path, lag: LagControl) -> None:
    """Run the example in one process; it must succeed."""
    give_database(folder / "state")
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    kubernetes = {"kube_config_path": str(kubeconfig), "namespace": NAMESPACE}
    connections = {
        f"AIRFLOW_CONN_{kind.upper()}_DEFAULT": json.dumps({"conn_type": kind, "extra": extra})
        for kind, extra in (("kafka", kafka), ("kubernetes", kubernetes))
    }
    with as_a_user():
        environment = airflow_environment(folder / "state", connections)
    environment["AIRFLOW__CORE__DAGS_FOLDER"] = str(PROJECT_ROOT / "docs" / "examples")
    conf = {"topic": lag.topic, "group": lag.group, "minutes": 0.05, "namespace": NAMESPACE}
    conf |= {"deployment": NAME, "scaled_object": NAME}
    command = airflow_command("dags", "test", DAG, "--conf", json.dumps(conf))
    with (folder / "dag.log").open("wb") as log:
        done = subprocess.run(
            command, env=environment, stdout=log, stderr=log, timeout=900, check=False
        )
    assert done.returncode == 0, (folder / "dag.log").read_text()[-4000:]


def xcoms(folder: Path) -> dict[tuple[str, str], Any]:
    """Return the results of the tasks."""
    file = airflow_home(folder / "state") / "airflow.db"
    with closing(sqlite3.connect(file)) as database:
        rows = database.execute("SELECT task_id, key, value FROM xcom").fetchall()
    return {(task, key): _decoded(value) for task, key, value in rows}


def _decoded(value: Any) -> Any:
    """Return a value that the database holds as JSON, or as JSON of JSON."""
    while isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            break
    return value
