"""Submit the pipeline with the Spark provider's operator, imported on demand."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lagbench.core.spark import (
    Here,
    SparkPlace,
    Submission,
    compose_submission,
    time_limit_seconds,
)
from lagbench.errors import NotReady, WrongInput
from lagbench.shared_with_spark.kafka_options import CONFIG_VARIABLE
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.failures import wrong_input_is_final
from lagbench_airflow.operators.cell_operator import CellOperator
from lagbench_airflow.spark_progress import shown_progress

if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    from airflow.sdk import Context

    from lagbench.adapters.runs.run_folder import RunFolder
    from lagbench.adapters.runs.run_staging import Staging
    from lagbench_airflow.hooks.spark import SparkTarget

JOB = "pipeline"
WRITTEN_TABLES = ("telemetry", "events", "processed", "bad_messages", "timeline")


class SubmitSparkJobOperator(CellOperator):
    """Run ``spark_jobs/pipeline.py`` on the run, through ``SparkSubmitOperator``.

    After success: the job's tables are in the run folder. A retry overwrites them and is safe.
    The connection sets where Spark runs and how it reaches jars, code and run: docs/spark.md.

    It is a wrapper, because importing the provider's operator takes 3 s here (it imports both
    Kubernetes clients). Every task of a Dag parses the file in its own process and would pay that.

    :param spark_conn_id: connection to Spark; ``local[2]`` in the embedded bench.
    :param driver_memory: heap of the driver, which in local mode is all of Spark.
    """

    is_measured = False

    def __init__(
        self,
        *,
        spark_conn_id: str = "spark_default",
        driver_memory: str = "2g",
        **kwargs: Any,
    ) -> None:
        """Keep the arguments."""
        super().__init__(**kwargs)
        self.spark_conn_id = spark_conn_id
        self.driver_memory = driver_memory
        self._submit: SparkSubmitOperator | None = None

    def pre_execute(self, context: Context) -> None:
        """Set the task's time limit to that of the run's size; Airflow reads it after this.

        Without a fence it stays as it is: the run cannot be accounted for.
        """
        super().pre_execute(context)
        with wrong_input_is_final():
            folder = CellRun.open(self.run_folder).folder
        if folder.fence.exists():
            seconds = time_limit_seconds(_messages(folder)) * len(folder.groups)
            self.execution_timeout = timedelta(seconds=seconds)

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:
        """Put the run in place, execute the provider's operator, and fetch the run."""
        from lagbench_airflow.hooks.spark import SparkTarget

        target = SparkTarget.read(self.spark_conn_id)
        staging = staging_of(target, cell.folder)
        if staging is not None:
            staging.put(cell.folder)
        with (
            tempfile.TemporaryDirectory(prefix="lagbench-spark-") as scratch,
            self._jvm_options(target, cell) as options,
        ):
            submission = self._compose(target, cell, Path(scratch))
            with shown_progress(cell.folder, self.task_id):
                self._run(target, submission, cell, options, context)
        if staging is not None:
            staging.fetch(cell.folder)
        require_tables(cell.folder, WRITTEN_TABLES, seen_by_spark=submission.run_folder)
        return {"job": JOB, "tables": _tables(cell.folder.tables)}

    def on_kill(self) -> None:
        """Stop the job with the task."""
        if self._submit is not None:
            self._submit.on_kill()

    def _compose(self, target: SparkTarget, cell: CellRun, scratch: Path) -> Submission:
        from lagbench.embedded.spark_packages import (
            POD_TEMPLATE,
            SPARK_JOBS,
            spark_jars,
            write_code_zip,
        )

        fetches = target.place is not SparkPlace.KUBERNETES and target.settings.jars is None
        here = Here(
            run_folder=cell.folder.path,
            spark_jobs=SPARK_JOBS,
            jars=tuple(spark_jars()) if fetches else (),
            code_zip=write_code_zip(scratch),
            python=sys.executable,
            pod_template=POD_TEMPLATE,
            run=cell.folder.reference,
        )
        return compose_submission(
            target.place, target.settings, here, job=JOB, namespace=target.namespace
        )

    def _run(
        self,
        target: SparkTarget,
        submission: Submission,
        cell: CellRun,
        options: str,
        context: Context,
    ) -> None:
        from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

        from lagbench.embedded.spark_packages import spark_environment, submit_environment

        environment = submit_environment()
        if target.place is SparkPlace.LOCAL:
            environment = spark_environment()
        if target.settings.kubeconfig is not None:
            environment["KUBECONFIG"] = target.settings.kubeconfig
        self._submit = SparkSubmitOperator(
            task_id=self.task_id,
            conn_id=self.spark_conn_id,
            application=submission.application,
            application_args=[*self._arguments(target, submission, cell)],
            jars=",".join(submission.jars) or None,
            py_files=",".join(submission.py_files) or None,
            driver_memory=self.driver_memory,
            conf={"spark.driver.extraJavaOptions": options, **submission.conf},
            deploy_mode=submission.deploy_mode,
            name=f"lagbench-{JOB}",
        )
        # Not as env_vars: on Kubernetes the provider passes those to the driver's pod instead.
        with _variables(environment, without=_foreign_variables(target.place)):
            # The undecorated method: the safeguard around it warns about direct calls of operators.
            inspect.unwrap(SparkSubmitOperator.execute)(self._submit, context)

    @contextlib.contextmanager
    def _jvm_options(self, target: SparkTarget, cell: CellRun) -> Iterator[str]:
        """Yield the driver's options; only a local driver has an archive of its classes."""
        from lagbench.embedded.driver_options import compiler_options, driver_options
        from lagbench.embedded.java import find_java

        messages = _messages(cell.folder)
        if target.place is not SparkPlace.LOCAL:
            yield compiler_options(messages)
            return
        with driver_options(find_java(), messages=messages) as options:
            yield options

    def _arguments(
        self, target: SparkTarget, submission: Submission, cell: CellRun
    ) -> Sequence[str]:
        servers = target.settings.bootstrap_servers or self.bootstrap_servers()
        if target.place is not SparkPlace.LOCAL and os.environ.get(CONFIG_VARIABLE):
            raise WrongInput(
                where=target.where,
                field="host",
                value=str(target.place.name).lower(),
                allowed="local[N]: executors elsewhere do not have the settings of a secured Kafka",
            )
        arguments = ["--run-folder", submission.run_folder, "--bootstrap-servers", servers]
        arguments += ["--events-topic", cell.names.events_topic]
        arguments += ["--processed-topic", cell.names.processed_topic]
        arguments += ["--telemetry-topic", cell.names.telemetry_topic]
        return arguments


def staging_of(target: SparkTarget, folder: RunFolder) -> Staging | None:
    """Return the place of the run's copy for Spark; None if Spark sees the run folder itself.

    :raises WrongInput: the driver, which runs here, does not see the root of the runs.
    """
    from lagbench.adapters.runs.run_staging import Staging

    settings = target.settings
    if settings.runs is None:
        return None
    if settings.runs_in_s3:
        return Staging.in_s3(
            settings.runs,
            folder.reference,
            endpoint=settings.s3_endpoint,
            region=settings.s3_region,
        )
    root = Path(settings.runs)
    if target.place is SparkPlace.KUBERNETES:
        return None  # the claim's volume is the one that holds this machine's run folders
    if not root.is_dir():
        raise WrongInput(
            where=target.where,
            field="lagbench_runs",
            value=settings.runs,
            allowed="a folder that this machine (the driver) and all workers have at the same "
            "path, or s3a://BUCKET/PREFIX",
        )
    own = root / folder.reference
    if own.exists() and own.samefile(folder.path):
        return None
    return Staging.in_folder(settings.runs, folder.reference)


def require_tables(folder: RunFolder, names: Sequence[str], *, seen_by_spark: str) -> None:
    """Reject a successful job whose tables are not in the run folder.

    Executors that do not share the driver's disk write elsewhere, and Spark still reports success.

    :raises NotReady: a table has no file.
    """
    missing = [name for name in names if not any(folder.table(name).glob("part-*.parquet"))]
    if missing:
        raise NotReady(
            f"Spark succeeded, but {', '.join(missing)} have no file in {folder.tables}. Spark "
            f"wrote to {seen_by_spark}: lagbench_runs of Spark's connection must be the folder "
            "of this machine's run folders, and all executors must have it (docs/spark.md)"
        )


@contextlib.contextmanager
def _variables(given: Mapping[str, str], *, without: Sequence[str]) -> Iterator[None]:
    """Set and unset environment variables for the block, then restore them."""
    before = {name: os.environ.get(name) for name in (*given, *without)}
    for name in without:
        os.environ.pop(name, None)
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _foreign_variables(place: SparkPlace) -> Sequence[str]:
    """Return the variables for Spark in one process here that no other Spark may get.

    Executors could not reach a driver that advertises 127.0.0.1, nor find this machine's Python.
    """
    return () if place is SparkPlace.LOCAL else ("SPARK_LOCAL_IP", "PYSPARK_PYTHON")


def _messages(folder: RunFolder) -> int:
    """Return the number of offsets below the fence in the events topic."""
    return sum(folder.read_json(folder.fence)["events"].values())


def _tables(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())
