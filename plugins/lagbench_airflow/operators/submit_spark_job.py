"""Account for a run: submit ``spark_jobs/pipeline.py`` through the Spark provider's hook."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from lagbench.adapters.kube.kube import Kube
from lagbench.core.cluster.spark_connection import (
    Here,
    SparkPlace,
    Submission,
    compose_submission,
    time_limit_seconds,
)
from lagbench.core.scenario.offered_load import offered_load
from lagbench.errors import NotReady, WrongInput
from lagbench.orchestrator.airflow_environment import is_dag_process
from lagbench.results.cell_run import CellRun
from lagbench.results.phases import fenced_messages, shown_progress
from lagbench.shared_with_spark.message_classes import CLASSES, DUPLICATED, LOST
from lagbench_airflow.hooks.kube import open_kube
from lagbench_airflow.operators.start_companions import CellOperator
from lagbench_airflow.task_life import wrong_input_is_final
from lagbench_airflow.triggers.condition import values_text
from pod_program.kafka_config import CONFIG_VARIABLE

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Context

    from lagbench.adapters.runs.run_folder import RunFolder
    from lagbench.adapters.runs.topic_copies import Staging
    from lagbench_airflow.hooks.spark import SparkTarget

log = logging.getLogger(__name__)

JOB, CONNECTION = "pipeline", "spark_default"
DRIVER_POD = "spark.kubernetes.driver.pod.name"
_GOING_ON = ("Pending", "Running")
WRITTEN_TABLES = ("telemetry", "events", "processed", "bad_messages", "timeline")


class SubmitSparkJobOperator(CellOperator):
    """Run ``spark_jobs/pipeline.py`` on the run, through ``SparkSubmitHook``.

    After success: the job's tables are in the run folder. A retry overwrites them and is safe. On
    Kubernetes, where the driver outlives this task, it takes over that of the try before. Elsewhere
    it repeats the job: a standalone cluster runs no driver in Python. The connection sets where
    Spark runs and how it reaches jars, code and run: docs/spark.md.

    It does not inherit the provider's operator, whose import takes 3 s here (it imports both
    Kubernetes clients): every task of a Dag parses the file in its own process and would pay that.
    """

    is_measured = False
    driver_memory = "2g"
    """Heap of the driver, which in local mode is all of Spark."""
    _job: PipelineJob | None = None

    def pre_execute(self, context: Context) -> None:
        """Set the task's time limit to that of the run's size; Airflow reads it after this.

        Without a fence it stays as it is: the run cannot be accounted for.
        """
        super().pre_execute(context)
        with wrong_input_is_final():
            folder = CellRun.open(self.run_folder).folder
        if folder.fence.exists():
            seconds = time_limit_seconds(fenced_messages(folder)) * len(folder.groups)
            self.execution_timeout = timedelta(seconds=seconds)

    def begin(self, context: Context) -> None:
        """Start the job before its task, as the callback of an earlier one; it waits for the fence.

        Spark takes as long to start as to account for a short run. Only for a Spark of this
        machine, and only where one process runs all tasks. A retry of the task starts another job.
        """
        from lagbench_airflow.hooks.spark import SparkTarget

        if not is_dag_process():  # a task that ends with its process could not keep it
            return
        cell = CellRun.open(context["ti"].xcom_pull(task_ids="plan_cell")["run_id"])
        target = SparkTarget.read(CONNECTION)
        if target.place is SparkPlace.LOCAL and staging_of(target, cell.folder) is None:
            self._job_of(cell, target).begin()

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:
        """Put the run in place, submit the job, and fetch the run.

        Executors that do not share the driver's disk write elsewhere, and Spark still reports
        success: tables that are missing then are a failure.
        """
        from lagbench.results.seals import seal_evidence
        from lagbench_airflow.hooks.spark import SparkTarget

        folder, target = cell.folder, SparkTarget.read(CONNECTION)
        staging = staging_of(target, folder)
        if staging is not None:
            staging.put(folder)
        self._job = PipelineJob.begun.pop(folder.path, None) or self._job_of(cell, target)
        ti = context.get("ti")
        self._job.try_number = getattr(ti, "try_number", 1)
        # A clear counts the tries on, and allows as many retries again.
        self._job.first_try = getattr(ti, "max_tries", self.retries or 0) - (self.retries or 0) + 1
        self.log.info(
            "accounting for %s messages of %s", f"{fenced_messages(folder):,}", folder.reference
        )
        with shown_progress(folder, self.task_id, self.log.info):
            self._job.finish()
        if staging is not None:
            staging.fetch(folder)
        missing = [n for n in WRITTEN_TABLES if not any(folder.table(n).glob("part-*.parquet"))]
        if missing:
            raise NotReady(
                f"Spark succeeded, but {', '.join(missing)} have no file in {folder.tables}. Spark "
                f"wrote to {self._job.run_folder}: lagbench_runs of Spark's connection must be the "
                "folder of this machine's run folders, and all executors must have it "
                "(docs/spark.md)"
            )
        # A second group follows with a job of its own.
        self.log.info("accounted for %s: %s", folder.reference, counted(folder))
        for group in folder.groups:
            seal_evidence(group)
        tables = sorted(path.name for path in folder.tables.iterdir() if path.is_dir())
        return {"job": JOB, "tables": tables}

    def on_kill(self) -> None:
        """Stop the job with the task."""
        if self._job is not None and self._job.hook is not None:
            self._job.hook.on_kill()

    def _job_of(self, cell: CellRun, target: SparkTarget) -> PipelineJob:
        return PipelineJob(
            cell=cell,
            target=target,
            bootstrap_servers=target.settings.bootstrap_servers or self.bootstrap_servers(),
            driver_memory=self.driver_memory,
        )


def staging_of(target: SparkTarget, folder: RunFolder) -> Staging | None:
    """Return the place of the run's copy for Spark; None if Spark sees the run folder itself."""
    from lagbench.adapters.runs.topic_copies import Staging

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
    if target.place is SparkPlace.KUBERNETES:
        return None  # the claim's volume is the one that holds this machine's run folders
    if not Path(settings.runs).is_dir():
        raise WrongInput(
            where=target.where,
            field="lagbench_runs",
            value=settings.runs,
            allowed="a folder that this machine (the driver) and all workers have at the same "
            "path, or s3a://BUCKET/PREFIX",
        )
    own = Path(settings.runs) / folder.reference
    if own.exists() and own.samefile(folder.path):
        return None
    return Staging.in_folder(settings.runs, folder.reference)


@dataclass
class PipelineJob:
    """One submission for one run, now or before its task."""

    cell: CellRun
    target: SparkTarget
    bootstrap_servers: str
    driver_memory: str
    try_number: int = 1
    first_try: int = 1
    """The first one since the task was cleared."""
    run_folder: str = ""
    """Where Spark sees the run folder; known once it is submitted."""
    hook: SparkSubmitHook | None = None
    begun: ClassVar[dict[Path, PipelineJob]] = {}
    """Jobs that wait for their fence, by run folder."""
    _end: Future[None] | None = None

    def begin(self) -> None:
        """Submit it now in a thread; it waits for the run's fence."""
        end: Future[None] = Future()
        self._end = end
        self.begun[self.cell.folder.path] = self

        def run() -> None:
            try:
                self._run(is_held=True)
            except BaseException as error:
                end.set_exception(error)
            else:
                end.set_result(None)

        threading.Thread(target=run, name=JOB, daemon=True).start()

    def finish(self) -> None:
        """Wait for its end; submit it if it was not begun."""
        if self._end is None:
            self._run(is_held=False)
        else:
            self._end.result()

    def _run(self, *, is_held: bool) -> None:
        from lagbench_airflow.hooks.spark_submit import TiedSparkSubmitHook

        with (
            tempfile.TemporaryDirectory(prefix="lagbench-spark-") as scratch,
            self._jvm_options(is_held=is_held) as options,
        ):
            submission = self._composed(Path(scratch))
            self.run_folder = submission.run_folder
            if self.target.place is SparkPlace.KUBERNETES:
                namespace = submission.conf["spark.kubernetes.namespace"]
                if self._has_resumed(namespace):
                    return
                submission.conf[DRIVER_POD] = self._driver_pod(self.try_number)
            self.hook = TiedSparkSubmitHook(
                conn_id=CONNECTION,
                application_args=self._arguments(is_held=is_held),
                jars=",".join(submission.jars) or None,
                py_files=",".join(submission.py_files) or None,
                driver_memory=self.driver_memory,
                conf={"spark.driver.extraJavaOptions": options, **submission.conf},
                deploy_mode=submission.deploy_mode,
                name=f"lagbench-{JOB}",
            )
            self.hook.submit(submission.application, env=self._environment())

    def _driver_pod(self, try_number: int) -> str:
        return f"{self.cell.names.own(JOB)}-{self.cell.names.run_id}-{try_number}"

    def _has_resumed(self, namespace: str) -> bool:
        """Return whether the driver of an earlier try has done it; wait for one that still runs.

        One that succeeded before the task was cleared does not count: the user wants another.
        """
        config = self.target.settings.kubeconfig
        seconds = time_limit_seconds(fenced_messages(self.cell.folder))
        names = [self._driver_pod(number) for number in range(1, self.try_number)]
        if not names:
            return False
        with closing(Kube.from_kubeconfig(config) if config else open_kube()) as opened:
            kube = opened.elsewhere(namespace)
            for name in names:
                if is_going_on := not _has_ended(kube, name):
                    log.info("an earlier try's driver still runs: %s", name)
                    kube.wait_until(
                        partial(_has_ended, name=name),
                        timeout_seconds=seconds,
                        what=f"the end of Pod/{name}",
                    )
                is_own = is_going_on or name in names[self.first_try - 1 :]
                if is_own and _pod_phase(kube, name) == "Succeeded":
                    return True
        return False

    def _environment(self) -> dict[str, str]:
        """Return the variables of spark-submit; of Spark elsewhere without those of this machine.

        Executors could not reach a driver that advertises 127.0.0.1, nor find this Python.
        """
        from lagbench.embedded.spark_packages import spark_environment, submit_environment

        if self.target.place is SparkPlace.LOCAL:
            return {**os.environ, **spark_environment()}
        config = self.target.settings.kubeconfig
        own = ("SPARK_LOCAL_IP", "PYSPARK_PYTHON")
        known = {name: value for name, value in os.environ.items() if name not in own}
        return known | submit_environment() | ({} if config is None else {"KUBECONFIG": config})

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
            target.place, target.settings, here, job=JOB, namespace=target.namespace
        )

    @contextlib.contextmanager
    def _jvm_options(self, *, is_held: bool) -> Iterator[str]:
        """Yield the driver's options; only a local driver has an archive of its classes."""
        from lagbench.embedded.java import compiler_options, driver_options, find_java

        # A held job's log does not end yet: the plan says how many messages there will be.
        planned = offered_load(self.cell.scenario.profile).total
        messages = planned if is_held else fenced_messages(self.cell.folder)
        if self.target.place is not SparkPlace.LOCAL:
            yield compiler_options(messages)
            return
        with driver_options(find_java(), messages=messages) as options:
            yield options

    def _arguments(self, *, is_held: bool) -> list[str]:
        if self.target.place is not SparkPlace.LOCAL and os.environ.get(CONFIG_VARIABLE):
            raise WrongInput(
                where=self.target.where,
                field="host",
                value=str(self.target.place.name).lower(),
                allowed="local[N]: executors elsewhere do not have the settings of a secured Kafka",
            )
        flags = {"--run-folder": self.run_folder, "--bootstrap-servers": self.bootstrap_servers}
        sorts = ("events", "processed", "telemetry")
        topics = zip(sorts, self.cell.names.topics, strict=True)
        flags |= {f"--{sort}-topic": topic for sort, topic in topics}
        if is_held:
            flags["--held-by"] = str(os.getpid())
        return [part for flag in flags.items() for part in flag]


def _pod_phase(kube: Kube, name: str) -> str | None:
    """Return the phase of a pod, None: it is not there."""
    phase: str | None = ((kube.get("Pod", name) or {}).get("status") or {}).get("phase")
    return phase


def _has_ended(kube: Kube, name: str) -> bool:
    return _pod_phase(kube, name) not in _GOING_ON


def counted(folder: RunFolder) -> str:
    """Return what the accounting of a group counted: its totals, and each class with a message."""
    counts = folder.read_json(folder.accounting)
    always = ("in_log", "processed_distinct", LOST, DUPLICATED)
    names = dict.fromkeys((*always, *(name for name in CLASSES if counts.get(name))))
    return values_text({name: counts[name] for name in names if counts.get(name) is not None})
