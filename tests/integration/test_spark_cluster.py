"""The operator on a standalone cluster of two workers, on the run that ``local[2]`` was given."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest
from tests.eventually import eventually
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.integration.landed_run import NAMES
from tests.integration.spark_standalone import (
    WORKERS,
    Standalone,
    standalone_cluster,
    strange_python,
)
from tests.unit.plugins.conftest import SCENARIO
from tests.unit.spark_jobs.synthetic_run import SyntheticRun

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.scenario import Scenario
from lagbench.embedded.broker import Broker
from lagbench.project import PROJECT_ROOT
from lagbench.results.cell_run import CellRun
from lagbench.shared_with_spark.spark_job import SECRET_VARIABLE
from lagbench_airflow.operators.submit_spark_job import SubmitSparkJobOperator
from localkube.processes import start_tied

STORE = os.environ.get("LAGBENCH_TEST_S3", "")  # http://HOST:PORT/BUCKET
STORE_JARS = os.environ.get("LAGBENCH_TEST_S3_JARS", "")  # a folder with hadoop-aws

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]


def _in_a_volume(folder: Path) -> dict[str, Any]:
    """Return settings for a folder that driver and workers see; the run folder is elsewhere."""
    volume = folder / "volume"
    volume.mkdir()
    return {"lagbench_runs": str(volume)}


def _in_a_store(_: Path) -> dict[str, Any]:
    """Return settings for the object store that was given."""
    parts = urlsplit(STORE)
    on_the_path = {
        f"spark.{role}.extraClassPath": f"{STORE_JARS}/*" for role in ("driver", "executor")
    }
    return {
        "lagbench_runs": f"s3a:/{parts.path.rstrip('/')}/runs",
        "lagbench_s3_endpoint": f"{parts.scheme}://{parts.netloc}",
        "lagbench_s3_region": "us-east-1",
        "lagbench_conf": on_the_path,
    }


def _connection(master: str, python: Path, settings: dict[str, Any]) -> str:
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "500m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        **settings.pop("lagbench_conf", {}),
    }
    extra = {"lagbench_python": str(python), "lagbench_conf": conf, **settings}
    return json.dumps({"conn_type": "spark", "host": master, "extra": extra})


def account(run_folder: Path) -> dict[str, Any]:
    """Do the task's work on a run that has its fence, as one try."""
    task = SubmitSparkJobOperator(task_id="account", run_folder=str(run_folder))
    task.driver_memory = "700m"
    scenario, policy = Scenario.model_validate(SCENARIO), Policy.unknown("none", 1)
    return task.act(CellRun(RunFolder(run_folder), NAMES, scenario, policy), {})


def _kill_a_first_try(cluster: Standalone, run_folder: Path) -> None:
    """Kill a task when its application is on the cluster; return when that has ended."""
    code = "from tests.integration.test_spark_cluster import *; account(Path(sys.argv[1]))"
    with (run_folder / "first-try.log").open("wb") as log:
        command = [sys.executable, "-c", code, str(run_folder)]
        paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
        first = start_tied(command, log=log, cwd=PROJECT_ROOT, env=os.environ | paths)
    eventually(lambda: cluster.state()["activeapps"] or first.poll(), "a submission")
    assert first.poll() is None, (run_folder / "first-try.log").read_text()[-2000:]
    first.kill()
    first.wait(timeout=60)
    eventually(lambda: not cluster.state()["activeapps"], "the end of its application")


def _rows(folder: Path, table: str) -> list[Any]:
    """Return a table's rows in an order of their own: two workers write in another."""
    return sorted(map(repr, pq.read_table(folder / "tables" / table).to_pylist()))


@pytest.mark.parametrize(
    "where",
    [
        _in_a_volume,
        pytest.param(
            _in_a_store,
            marks=pytest.mark.skipif(
                not (STORE and STORE_JARS), reason="needs an object store: see docs/spark.md"
            ),
        ),
    ],
)
def test_two_workers_find_what_one_process_found(
    where: Callable[[Path], dict[str, Any]],
    landed: tuple[SyntheticRun, Path],
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tables and accounting come back into the run folder, equal to those of local[2].

    It is a retry: the first try's task was killed, and its driver has written no accounting.
    """
    _, expected = landed
    settings = where(tmp_path)
    folder = RunFolder.create(NAMES.run_id, tmp_path / "runs")
    folder.write_text(folder.fence, (expected / "fence.json").read_text())
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    monkeypatch.setenv(SECRET_VARIABLE, "of-this-cluster")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    with standalone_cluster(tmp_path) as cluster:
        spark = _connection(cluster.master, strange_python(tmp_path), settings)
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", spark)
        _kill_a_first_try(cluster, folder.path)
        assert not list(tmp_path.glob(f"*/{NAMES.run_id}/accounting.json"))
        done = account(folder.path)
        begun = {app["starttime"]: app["id"] for app in cluster.state()["completedapps"]}

    tables = sorted(path.name for path in (expected / "tables").iterdir())
    assert done == {"job": "pipeline", "tables": tables}
    for table in tables:
        assert _rows(folder.path, table) == _rows(expected, table), table
    accounting = folder.read_json(folder.accounting)
    assert accounting == json.loads((expected / "accounting.json").read_text())
    assert len(begun) == 2
    executors = list((tmp_path / "work").glob(f"{begun[max(begun)]}/[0-9]*"))
    assert len(executors) == WORKERS
