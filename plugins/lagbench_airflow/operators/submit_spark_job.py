"""Submit a job of the pipeline with the Spark provider's operator, imported when it is needed."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lagbench.project import PROJECT_ROOT
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.cell_operator import CellOperator

if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    from airflow.sdk import Context

SPARK_JOBS = PROJECT_ROOT / "spark_jobs"
KAFKA_READERS = ("land", "pipeline")
SHORT_JOB_MESSAGES = 2_000_000
"""Below this the first-tier compiler alone is faster: 22 s of CPU instead of 46 s at 45,000."""


class SubmitSparkJobOperator(CellOperator):
    """Run ``spark_jobs/<job>.py`` on the run, through ``SparkSubmitOperator``.

    After success: the job's tables are in the run folder. A retry overwrites them and is safe.

    A wrapper, because importing the provider's operator costs 3 s here (it imports both Kubernetes
    clients), and every task of a Dag, in a process of its own, would pay that for parsing the file.

    :param job: name of the entry script.
    :param spark_conn_id: where Spark runs; ``local[2]`` in the embedded bench.
    :param driver_memory: heap of the driver, which in local mode is all of Spark.
    """

    is_measured = False

    def __init__(
        self,
        *,
        job: str,
        spark_conn_id: str = "spark_default",
        driver_memory: str = "2g",
        **kwargs: Any,
    ) -> None:
        """Keep the arguments."""
        super().__init__(**kwargs)
        self.job = job
        self.spark_conn_id = spark_conn_id
        self.driver_memory = driver_memory
        self._submit: SparkSubmitOperator | None = None

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:
        """Build the provider's operator and let it work."""
        from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

        from lagbench.embedded.spark_packages import spark_environment, spark_jars

        application = SPARK_JOBS / f"{self.job}.py"
        self._submit = SparkSubmitOperator(
            task_id=self.task_id,
            conn_id=self.spark_conn_id,
            application=str(application),
            application_args=[*self._arguments(cell)],
            jars=",".join(str(path) for path in spark_jars()),
            env_vars=spark_environment(),
            driver_memory=self.driver_memory,
            conf=_compiler(cell),
            name=f"lagbench-{self.job}",
        )
        # The undecorated method: the safeguard around it warns of operators called by hand.
        inspect.unwrap(SparkSubmitOperator.execute)(self._submit, context)
        return {"job": self.job, "tables": _tables(cell.folder.tables)}

    def on_kill(self) -> None:
        """End the job with the task."""
        if self._submit is not None:
            self._submit.on_kill()

    def _arguments(self, cell: CellRun) -> Sequence[str]:
        arguments = ["--run-folder", str(cell.folder.path)]
        if self.job in KAFKA_READERS:
            arguments += ["--bootstrap-servers", self.bootstrap_servers()]
            arguments += ["--events-topic", cell.names.events_topic]
            arguments += ["--processed-topic", cell.names.processed_topic]
            arguments += ["--telemetry-topic", cell.names.telemetry_topic]
        return arguments


def _compiler(cell: CellRun) -> dict[str, str]:
    """Return the driver's JIT setting: a short job ends before the optimising tier pays."""
    fence = cell.folder.read_json(cell.folder.fence)
    if sum(fence["events"].values()) >= SHORT_JOB_MESSAGES:
        return {}
    return {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}


def _tables(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())
