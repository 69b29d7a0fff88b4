"""Start the consumers under test."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.cell_operator import CellOperator
from lagbench_airflow.operators.own_consumers import start_own_consumers
from lagbench_airflow.operators.spark_consumers import start_spark_consumers
from lagbench_airflow.operators.stand_in_consumers import start_stand_in_consumers

if TYPE_CHECKING:
    from airflow.sdk import Context

_STARTS = {
    "stand-in": start_stand_in_consumers,
    "spark": start_spark_consumers,
    "own": start_own_consumers,
}


class RunConsumersOperator(CellOperator):
    """Run the consumers' workload at the policy's floor.

    If an action disturbs their connections to the broker, the broker proxy comes first.

    After success: every pod is Ready. On failure the workload stays, so that its pods can be
    inspected; the run's teardown deletes it. A retry applies the same manifest again and is safe.
    """

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Apply the workload and wait for its pods."""
        from lagbench_airflow.hooks.kube import PATIENCE_SECONDS, embedded_access, open_kube

        start = _STARTS[cell.scenario.consumer.kind]
        is_embedded = embedded_access(self.kubernetes_conn_id) is not None
        target = self.target(cell)
        kube = open_kube(self.kubernetes_conn_id, patience_seconds=PATIENCE_SECONDS)
        with closing(kube):
            return start(kube, cell, target, is_embedded=is_embedded)
