"""One run of the pipeline: what is submitted to Spark, and when it starts."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.scenario.stream import offered_load
from lagbench.core.spark import Here, SparkPlace, Submission, compose_submission
from lagbench.errors import WrongInput
from lagbench.shared_with_spark.kafka_options import CONFIG_VARIABLE
from lagbench_airflow.cell_run import CellRun

if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    from airflow.sdk import Context

    from lagbench_airflow.hooks.spark import SparkTarget


@dataclass
class PipelineJob:
    """One submission of ``spark_jobs/pipeline.py`` for one run."""

    cell: CellRun
    target: SparkTarget
    spark_conn_id: str
    bootstrap_servers: str
    driver_memory: str
    run_folder: str = ""
    """Where Spark sees the run folder; known once it is submitted."""
    name: ClassVar[str] = "pipeline"
    _submit: SparkSubmitOperator | None = None
    _end: Future[None] | None = None
    _begun: ClassVar[dict[Path, PipelineJob]] = {}

    @classmethod
    def begun(cls, folder: RunFolder) -> PipelineJob | None:
        """Take over the job that was begun for a run; None: there is none."""
        return cls._begun.pop(folder.path, None)

    def begin(self, context: Context) -> None:
        """Submit it now in a thread; it waits for the run's fence."""
        end: Future[None] = Future()
        self._end = end
        self._begun[self.cell.folder.path] = self

        def run() -> None:
            try:
                self._run(context, is_held=True)
            except BaseException as error:
                end.set_exception(error)
            else:
                end.set_result(None)

        threading.Thread(target=run, name=self.name, daemon=True).start()

    def finish(self, context: Context) -> None:
        """Wait for its end; submit it if it was not begun."""
        if self._end is None:
            self._run(context, is_held=False)
        else:
            self._end.result()

    def kill(self) -> None:
        """Stop it."""
        if self._submit is not None:
            self._submit.on_kill()

    def _run(self, context: Context, *, is_held: bool) -> None:
        from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

        from lagbench.embedded.spark_packages import spark_environment, submit_environment

        is_local = self.target.place is SparkPlace.LOCAL
        environment = submit_environment()
        if self.target.settings.kubeconfig is not None:
            environment["KUBECONFIG"] = self.target.settings.kubeconfig
        with (
            tempfile.TemporaryDirectory(prefix="lagbench-spark-") as scratch,
            self._jvm_options(is_held=is_held) as options,
        ):
            submission = self._composed(Path(scratch))
            self.run_folder = submission.run_folder
            self._submit = SparkSubmitOperator(
                task_id=self.name,
                conn_id=self.spark_conn_id,
                application=submission.application,
                application_args=[*self._arguments(is_held=is_held)],
                jars=",".join(submission.jars) or None,
                py_files=",".join(submission.py_files) or None,
                driver_memory=self.driver_memory,
                conf={"spark.driver.extraJavaOptions": options, **submission.conf},
                deploy_mode=submission.deploy_mode,
                name=f"lagbench-{self.name}",
                # Elsewhere the provider passes them to the driver's pod, or refuses them.
                env_vars=spark_environment() if is_local else None,
            )
            given = contextlib.nullcontext() if is_local else _only_variables(environment)
            with given:
                # Undecorated: the safeguard around it warns about direct calls of operators.
                inspect.unwrap(SparkSubmitOperator.execute)(self._submit, context)

    def _composed(self, scratch: Path) -> Submission:
        from lagbench.embedded.spark_packages import (
            POD_TEMPLATE,
            SPARK_JOBS,
            spark_jars,
            write_code_zip,
        )

        target, folder = self.target, self.cell.folder
        fetches = target.place is not SparkPlace.KUBERNETES and target.settings.jars is None
        here = Here(
            run_folder=folder.path,
            spark_jobs=SPARK_JOBS,
            jars=tuple(spark_jars()) if fetches else (),
            code_zip=write_code_zip(scratch),
            python=sys.executable,
            pod_template=POD_TEMPLATE,
            run=folder.reference,
        )
        return compose_submission(
            target.place, target.settings, here, job=self.name, namespace=target.namespace
        )

    @contextlib.contextmanager
    def _jvm_options(self, *, is_held: bool) -> Iterator[str]:
        """Yield the driver's options; only a local driver has an archive of its classes."""
        from lagbench.embedded.driver_options import compiler_options, driver_options
        from lagbench.embedded.java import find_java

        if is_held:  # the log does not end yet: the plan says how many there will be
            messages = offered_load(self.cell.scenario.profile).total
        else:
            messages = sum(self.cell.folder.read_json(self.cell.folder.fence)["events"].values())
        if self.target.place is not SparkPlace.LOCAL:
            yield compiler_options(messages)
            return
        with driver_options(find_java(), messages=messages) as options:
            yield options

    def _arguments(self, *, is_held: bool) -> Sequence[str]:
        if self.target.place is not SparkPlace.LOCAL and os.environ.get(CONFIG_VARIABLE):
            raise WrongInput(
                where=self.target.where,
                field="host",
                value=str(self.target.place.name).lower(),
                allowed="local[N]: executors elsewhere do not have the settings of a secured Kafka",
            )
        names = self.cell.names
        arguments = ["--run-folder", self.run_folder]
        arguments += ["--bootstrap-servers", self.bootstrap_servers]
        arguments += ["--events-topic", names.events_topic]
        arguments += ["--processed-topic", names.processed_topic]
        arguments += ["--telemetry-topic", names.telemetry_topic]
        return [*arguments, "--held-by", str(os.getpid())] if is_held else arguments


@contextlib.contextmanager
def _only_variables(given: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the block, without those for Spark in one process here.

    Executors could not reach a driver that advertises 127.0.0.1, nor find this machine's Python.
    """
    without = ("SPARK_LOCAL_IP", "PYSPARK_PYTHON")
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
