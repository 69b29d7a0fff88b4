"""The Spark provider's hook, whose spark-submit ends with its task."""

from __future__ import annotations

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from localkube.processes import tied_command


class TiedSparkSubmitHook(SparkSubmitHook):
    """Submit with a process that cannot outlive this one, also after SIGKILL.

    Its driver would write into the run folder beside that of the retry. On Kubernetes the driver is
    a pod and continues.
    """

    def _get_spark_binary_path(self) -> list[str]:
        return tied_command(super()._get_spark_binary_path(), is_shared=True)
