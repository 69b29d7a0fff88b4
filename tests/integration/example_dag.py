"""A run of an example Dag of the docs, by a real Airflow in one process."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.fakes.migrated_database import give_database
from tests.fakes.user_environment import as_a_user

from lagbench.orchestrator.airflow_environment import (
    airflow_command,
    airflow_environment,
    airflow_home,
)
from lagbench.project import PROJECT_ROOT

_LIMIT_SECONDS = 900

Xcoms = dict[tuple[str, str], Any]
"""By task and key."""


def run_example(folder: Path, dag: str, connections: dict[str, str], conf: dict[str, Any]) -> Xcoms:
    """Run an example in an Airflow of its own; it must succeed; return what its tasks wrote."""
    give_database(folder / "state")
    with as_a_user():
        environment = airflow_environment(folder / "state", connections)
    environment["AIRFLOW__CORE__DAGS_FOLDER"] = str(PROJECT_ROOT / "docs" / "examples")
    command = airflow_command("dags", "test", dag, "--conf", json.dumps(conf))
    with (folder / "dag.log").open("wb") as log:
        done = subprocess.run(
            command, env=environment, stdout=log, stderr=log, timeout=_LIMIT_SECONDS, check=False
        )
    assert done.returncode == 0, (folder / "dag.log").read_text()[-4000:]
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
