"""Submitting a job: what Airflow's connection says becomes the command of spark-submit."""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from airflow.sdk.exceptions import AirflowFailException
from tests.eventually import eventually
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.unit.plugins.conftest import RUN_ID, SERVERS, World

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.embedded import spark_packages
from lagbench.errors import NotReady, WrongInput
from lagbench.results.phases import shown_progress
from lagbench.shared_with_spark.spark_job import PROGRESS_FILE
from lagbench_airflow.hooks.spark import SparkTarget
from lagbench_airflow.operators import submit_spark_job
from lagbench_airflow.operators.submit_spark_job import (
    WRITTEN_TABLES,
    PipelineJob,
    SubmitSparkJobOperator,
)

CONNECTION = "AIRFLOW_CONN_SPARK_DEFAULT"


@pytest.fixture(autouse=True)
def _no_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have jars and Java without a search."""
    monkeypatch.setattr(spark_packages, "spark_jars", lambda: [Path("/cache/kafka.jar")])
    monkeypatch.setattr(spark_packages, "submit_environment", lambda: {"JAVA_HOME": "/java"})


class Submitter:
    """A spark-submit on the PATH that notes how it was called, and ends as told."""

    def __init__(self, world: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put the program into a folder of its own, with the embedded bench's variables."""
        self.world, self._set, self.notes = world, monkeypatch.setenv, folder / "submit.json"
        self._program = folder / "bin" / "spark-submit"
        self._program.parent.mkdir()
        self.allow()
        self._program.chmod(0o755)
        self._set("PATH", f"{self._program.parent}{os.pathsep}{os.environ['PATH']}")
        self._set("SPARK_LOCAL_IP", "127.0.0.1")
        self._set("PYSPARK_PYTHON", sys.executable)

    def allow(self) -> None:
        """Let it note its call and succeed."""
        self._program.write_text(
            f"#!{sys.executable}\n"
            "import json, os, sys\n"
            f"with open({str(self.notes)!r} + '.part', 'w') as part:\n"
            "    json.dump([sys.argv[1:], dict(os.environ)], part)\n"
            "os.replace(part.name, part.name.removesuffix('.part'))\n"
            "print('Exit code: 0')\n"  # what Spark's submission to Kubernetes prints
        )

    def forbid(self) -> None:
        """Let it fail."""
        self._program.write_text("#!/bin/sh\necho it broke; exit 3\n")

    def connect(self, master: str, **extra: Any) -> None:
        """Define the connection."""
        self._set(CONNECTION, json.dumps({"conn_type": "spark", "host": master, "extra": extra}))

    def fence(self, *, tables: bool = True) -> None:
        """Write the run's fence, and the tables that the job would write."""
        folder = self.world.folder
        folder.write_json(folder.fence, {"events": {"0": 5}})
        folder.write_json(folder.accounting, {"in_log": 5, "processed_distinct": 5, "lost": 0})
        for name in WRITTEN_TABLES if tables else ():
            folder.table(name).mkdir()
            (folder.table(name) / "part-0.parquet").write_bytes(b"")

    def task(self, **given: Any) -> SubmitSparkJobOperator:
        """Return the task."""
        folder = str(self.world.folder.path)
        return SubmitSparkJobOperator(task_id="account_for_messages", run_folder=folder, **given)

    def run(self) -> Any:
        """Run the task."""
        return self.task().execute(self.world.context)

    @property
    def arguments(self) -> list[str]:
        """The command line."""
        given: list[str] = json.loads(self.notes.read_text())[0]
        return given

    @property
    def environment(self) -> dict[str, str]:
        """The environment."""
        given: dict[str, str] = json.loads(self.notes.read_text())[1]
        return given

    def options(self, *names: str) -> list[str]:
        """Return the values of options."""
        return [self.arguments[self.arguments.index(f"--{name}") + 1] for name in names]

    @property
    def conf(self) -> dict[str, str]:
        """The ``--conf`` options."""
        given = self.arguments
        pairs = [given[at + 1] for at, part in enumerate(given) if part == "--conf"]
        return dict(pair.split("=", 1) for pair in pairs)


@pytest.fixture
def spark(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submitter:
    """Return the program and the task that calls it."""
    return Submitter(world, tmp_path, monkeypatch)


def test_local_spark_is_one_process_here(world: World, spark: Submitter) -> None:
    """This Python, the loopback address, the run folder as it is; no package is sent."""
    spark.connect("local[2]")
    spark.fence()

    assert spark.run() == {"job": "pipeline", "tables": sorted(WRITTEN_TABLES)}
    options = spark.options("master", "jars", "run-folder", "bootstrap-servers")
    assert options == ["local[2]", "/cache/kafka.jar", str(world.folder.path), SERVERS]
    assert spark.environment["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert spark.environment["PYSPARK_PYTHON"] == sys.executable
    assert "--py-files" not in spark.arguments


@pytest.mark.parametrize(("messages", "minutes"), [(5_000_000, 30), (200_000_000, 420), (None, 3)])
def test_the_time_limit_is_that_of_the_size(
    world: World, spark: Submitter, messages: int | None, minutes: int
) -> None:
    """Airflow reads it after the hook that sets it; without a fence the task itself fails."""
    if messages is not None:
        world.folder.write_json(world.folder.fence, {"events": {"0": messages - 1, "1": 1}})
    task = spark.task(execution_timeout=timedelta(minutes=3))
    task.pre_execute(world.context)

    assert task.execution_timeout == timedelta(minutes=minutes)


def test_a_standalone_cluster_gets_no_variable_of_this_machine(
    world: World, spark: Submitter
) -> None:
    """Executors have their own Python and reach the driver; code is sent along."""
    spark.connect("spark://master:7077", lagbench_python="/opt/python")
    spark.fence()
    spark.run()

    master, files, folder = spark.options("master", "py-files", "run-folder")
    assert (master, folder) == ("spark://master:7077", f"file://{world.folder.path}")
    assert files.endswith("/lagbench-spark.zip")
    assert spark.conf["spark.pyspark.python"] == "/opt/python"
    assert spark.environment["JAVA_HOME"] == "/java"
    assert not {"SPARK_LOCAL_IP", "PYSPARK_PYTHON"} & spark.environment.keys()
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"  # restored


def test_kubernetes_gets_a_driver_of_its_own(spark: Submitter, tmp_path: Path) -> None:
    """Cluster mode, image, namespace and volume; nothing of this machine is sent or fetched.

    A success without tables is none: the message names them, where Spark wrote, and the setting.
    """
    config = tmp_path / "kubeconfig"
    config.write_text("{}")
    spark.connect(
        "k8s://https://10.0.0.1:6443",
        namespace="bench",
        lagbench_image="lagbench/spark:0.1.0",
        lagbench_runs="/mnt/runs",
        lagbench_runs_claim="runs",
        lagbench_bootstrap_servers="kafka:9092",
        lagbench_kubeconfig=str(config),
    )
    spark.fence(tables=False)
    place = f"file:///mnt/runs/{RUN_ID}"
    with pytest.raises(NotReady, match=f"telemetry, events, .*{place}: lagbench_runs"):
        spark.run()

    options = spark.options("deploy-mode", "bootstrap-servers", "run-folder")
    assert options == ["cluster", "kafka:9092", place]
    assert spark.conf["spark.kubernetes.container.image"] == "lagbench/spark:0.1.0"
    assert spark.conf["spark.kubernetes.namespace"] == "bench"
    assert not [key for key in spark.conf if key.startswith("spark.kubernetes.driverEnv")]
    assert spark.environment["KUBECONFIG"] == str(config)
    assert "--jars" not in spark.arguments
    assert "local:///opt/lagbench/spark_jobs/pipeline.py" in spark.arguments


@pytest.mark.parametrize(
    ("phase", "max_tries", "is_taken"),
    [("Running", 1, True), ("Succeeded", 1, True), ("Failed", 1, False), ("Succeeded", 2, False)],
)
def test_a_retry_on_kubernetes_takes_the_driver_over(
    world: World,
    spark: Submitter,
    monkeypatch: pytest.MonkeyPatch,
    phase: str,
    max_tries: int,
    *,
    is_taken: bool,
) -> None:
    """Also if it has succeeded since; not if it has failed, or a user clears what had succeeded."""
    kube, first = world.kube, f"pipeline-{RUN_ID}-1"
    monkeypatch.setattr(submit_spark_job, "open_kube", lambda: kube)
    settings = {"lagbench_image": "i:1", "lagbench_runs": "/r", "lagbench_runs_claim": "runs"}
    spark.connect("k8s://https://10.0.0.1:6443", **settings)
    spark.fence()
    kube.objects["Pod", first] = {"status": {"phase": phase}}

    def wait_until(condition: Any, **_: Any) -> None:
        assert not condition(kube)
        kube.objects["Pod", first]["status"]["phase"] = "Succeeded"
        assert condition(kube)

    monkeypatch.setattr(kube, "wait_until", wait_until)
    task = spark.task()
    task.retries = 1
    ti = SimpleNamespace(try_number=2, max_tries=max_tries)

    assert task.execute({"ti": ti})["job"] == "pipeline"
    assert spark.notes.exists() is not is_taken
    if not is_taken:
        assert spark.conf["spark.kubernetes.driver.pod.name"] == f"pipeline-{RUN_ID}-2"


def test_a_retry_that_cannot_look_for_the_driver_submits_no_second_one(
    world: World, spark: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would write into one run folder."""
    monkeypatch.setattr(submit_spark_job, "open_kube", lambda: world.kube)
    settings = {"lagbench_image": "i:1", "lagbench_runs": "/r", "lagbench_runs_claim": "runs"}
    spark.connect("k8s://https://10.0.0.1:6443", **settings)
    spark.fence()
    world.kube.is_down = True

    with pytest.raises(NotReady):
        spark.task().execute({"ti": SimpleNamespace(try_number=2)})
    assert not spark.notes.exists()


@pytest.mark.parametrize("is_runs_root", [False, True])
def test_the_run_is_carried_to_a_volume_and_back(
    world: World, spark: Submitter, tmp_path: Path, *, is_runs_root: bool
) -> None:
    """The fence goes there before the job; what lies there afterwards comes into the run folder.

    The runs' own root under another path is used in place.
    """
    volume = tmp_path / "volume"
    if is_runs_root:
        volume.symlink_to(world.folder.path.parent)
    spark.connect("spark://master:7077", lagbench_runs=str(volume))
    spark.fence(tables=False)
    for name in WRITTEN_TABLES:
        (volume / RUN_ID / "tables" / name).mkdir(parents=True)
        (volume / RUN_ID / "tables" / name / "part-0.parquet").write_bytes(name.encode())
    spark.run()

    assert (volume / RUN_ID / "fence.json").read_text() == world.folder.read_text("fence.json")
    assert (world.folder.table("events") / "part-0.parquet").read_bytes() == b"events"
    assert not list(world.folder.path.glob(".fetched-*"))


def test_a_root_that_the_driver_does_not_see_is_refused(spark: Submitter) -> None:
    """Before anything is submitted, and never again."""
    spark.connect("spark://master:7077", lagbench_runs="/nowhere/runs")
    spark.fence()

    with pytest.raises(AirflowFailException, match="lagbench_runs = '/nowhere/runs'"):
        spark.run()
    assert not spark.notes.exists()


@pytest.fixture
def earlier(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Provide the context of an earlier task, in a process that runs all tasks."""
    monkeypatch.setenv("LAGBENCH_DAG_PROCESS", str(os.getpid()))
    monkeypatch.setattr(PipelineJob, "begun", {})
    plan = {"run_id": str(world.folder.path)}
    return {"ti": SimpleNamespace(xcom_pull=lambda **_: plan)}


def test_a_job_that_was_begun_early_is_the_tasks_own(spark: Submitter, earlier: Any) -> None:
    """It is submitted before there is a fence, waits for it, and is not submitted again."""
    spark.connect("local[2]")
    spark.task().begin(earlier)
    eventually(spark.notes.exists, "a submission")
    assert spark.options("held-by") == [str(os.getpid())]
    spark.forbid()
    spark.fence()

    assert spark.run() == {"job": "pipeline", "tables": sorted(WRITTEN_TABLES)}


def test_a_retry_starts_another_job(spark: Submitter, earlier: Any) -> None:
    """The failure of the job that was begun early is the first try's, with Spark's last words."""
    spark.connect("local[2]")
    spark.forbid()
    spark.task().begin(earlier)
    spark.fence()
    with pytest.raises(Exception, match=r"(?s)Error code is: 3.*it broke"):
        spark.run()
    spark.allow()
    spark.run()

    assert "--held-by" not in spark.arguments


@pytest.mark.parametrize(
    ("is_dag_process", "master"), [(False, "local[2]"), (True, "spark://m:7077")]
)
def test_no_job_begins_early_that_could_be_lost(
    spark: Submitter,
    monkeypatch: pytest.MonkeyPatch,
    earlier: Any,
    is_dag_process: bool,
    master: str,
) -> None:
    """A task of its own process would take it along; a cluster's cores are not idle."""
    monkeypatch.setenv("LAGBENCH_DAG_PROCESS", str(os.getpid() if is_dag_process else 1))
    spark.connect(master)
    spark.task().begin(earlier)

    assert PipelineJob.begun == {}


@pytest.mark.parametrize(
    "connection",
    [
        "spark://master:7077",
        '{"conn_type": "spark", "host": "local[2]"}',
        '{"conn_type": "spark", "host": "master", "port": 7077}',
        '{"conn_type": "spark", "host": "spark://master", "port": 7077}',
        '{"conn_type": "spark", "host": "k8s://https://10.0.0.1", "port": 6443}',
    ],
)
def test_the_master_is_read_as_the_provider_reads_it(
    connection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every way to write a connection names the same master to both."""
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    monkeypatch.setenv(CONNECTION, connection)
    settings = {"lagbench_image": "i:1", "lagbench_runs": "s3a://b"}
    if "k8s" in connection:
        monkeypatch.setenv(CONNECTION, json.dumps({**json.loads(connection), "extra": settings}))

    assert SparkTarget.read("spark_default").master == SparkSubmitHook()._connection["master"]


OF_CLUSTER = {"lagbench_image": "i:1", "lagbench_runs": "s3a://b"}


@pytest.mark.parametrize(
    ("master", "extra", "named"),
    [
        ("yarn", {}, "'yarn'"),
        # Spark would take another one without a word.
        ("k8s://api:6443", OF_CLUSTER | {"lagbench_kubeconfig": "/nowhere"}, "kubeconfig = '/now"),
    ],
)
def test_a_connection_that_cannot_work_is_refused(
    spark: Submitter, master: str, extra: dict[str, str], named: str
) -> None:
    """The message has the connection, the field and the value; one that is missing has its name.

    The provider alone would submit to YARN then.
    """
    spark.connect(master, **extra)
    with pytest.raises(WrongInput, match=named):
        SparkTarget.read("spark_default")
    with pytest.raises(NotReady, match="spark_nowhere"):
        SparkTarget.read("spark_nowhere")


def phases(folder: RunFolder) -> list[tuple[str, str, str]]:
    """Return name, state and detail of the phases so far."""
    text = folder.phases.read_text() if folder.phases.exists() else ""
    entries = [msgspec.json.decode(line) for line in text.splitlines()]
    return [(entry["name"], entry["state"], entry["detail"]) for entry in entries]


@pytest.mark.parametrize("garbled", ["", "[]", '{"step": "of another version"}'])
def test_each_new_word_of_the_job_is_recorded_once(tmp_path: Path, garbled: str) -> None:
    """A file that is not there, or that nobody understands, says nothing."""
    folder = RunFolder.create("a-run", tmp_path)
    folder.write_json(folder.fence, {"events": {"0": 458_000, "1": 139}})
    file = folder.path / PROGRESS_FILE
    file.write_text(json.dumps({"step": "telemetry", "done": 0, "of": 1}))  # of an earlier try
    said: list[str] = []
    with shown_progress(folder, "account", said.append):
        file.write_text(garbled)
        file.write_text(json.dumps({"step": "events", "done": 7, "of": 12}))
        eventually(lambda: len(phases(folder)) > 1, "the first word")
        file.write_text(json.dumps({"step": "accounting", "done": 0, "of": 2}))
        eventually(lambda: len(phases(folder)) > 2, "the second word")

    assert phases(folder) == [
        ("account", "progress", "458,139 messages, starting Spark"),
        ("account", "progress", "458,139 messages, 40 %: landing the log"),
        ("account", "progress", "458,139 messages, 75 %: accounting"),
    ]
    assert said == [detail for _, _, detail in phases(folder)]
