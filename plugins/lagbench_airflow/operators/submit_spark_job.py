"""Submit the pipeline with the Spark provider's operator, imported on demand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lagbench.core.spark import SparkPlace, time_limit_seconds
from lagbench.errors import NotReady, WrongInput
from lagbench.orchestrator.dag_process import is_dag_process
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.failures import wrong_input_is_final
from lagbench_airflow.operators.cell_operator import CellOperator
from lagbench_airflow.pipeline_job import PipelineJob
from lagbench_airflow.spark_progress import shown_progress

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lagbench.adapters.runs.run_folder import RunFolder
    from lagbench.adapters.runs.run_staging import Staging
    from lagbench_airflow.hooks.spark import SparkTarget

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
        self._job: PipelineJob | None = None

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

    def begin(self, context: Context) -> None:
        """Start the job before its task, as the callback of an earlier one; it waits for the fence.

        Spark takes as long to start as to account for a short run. Only for a Spark of this
        machine, and only where one process runs all tasks. A retry of the task starts another job.
        """
        from lagbench_airflow.hooks.spark import SparkTarget

        if not is_dag_process():  # a task that ends with its process could not keep it
            return
        cell = CellRun.open(context["ti"].xcom_pull(task_ids="plan_cell")["run_folder"])
        target = SparkTarget.read(self.spark_conn_id)
        if target.place is SparkPlace.LOCAL and staging_of(target, cell.folder) is None:
            self._job_of(cell, target).begin(context)

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:
        """Put the run in place, execute the provider's operator, and fetch the run."""
        from lagbench.results.seals import seal_evidence
        from lagbench_airflow.hooks.spark import SparkTarget

        target = SparkTarget.read(self.spark_conn_id)
        staging = staging_of(target, cell.folder)
        if staging is not None:
            staging.put(cell.folder)
        self._job = PipelineJob.begun(cell.folder) or self._job_of(cell, target)
        with shown_progress(cell.folder, self.task_id):
            self._job.finish(context)
        if staging is not None:
            staging.fetch(cell.folder)
        require_tables(cell.folder, WRITTEN_TABLES, seen_by_spark=self._job.run_folder)
        for group in cell.folder.groups:
            seal_evidence(group)
        return {"job": self._job.name, "tables": _tables(cell.folder.tables)}

    def on_kill(self) -> None:
        """Stop the job with the task."""
        if self._job is not None:
            self._job.kill()

    def _job_of(self, cell: CellRun, target: SparkTarget) -> PipelineJob:
        return PipelineJob(
            cell=cell,
            target=target,
            spark_conn_id=self.spark_conn_id,
            bootstrap_servers=target.settings.bootstrap_servers or self.bootstrap_servers(),
            driver_memory=self.driver_memory,
        )


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


def _messages(folder: RunFolder) -> int:
    """Return the number of offsets below the fence in the events topic."""
    return sum(folder.read_json(folder.fence)["events"].values())


def _tables(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())
