"""Sensor on the replicas of the consumers."""

from __future__ import annotations

from lagbench.core.policy_limits import policy_limits
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.sensors.cell_sensor import CellSensor
from lagbench_airflow.triggers.condition import ConditionTrigger
from lagbench_airflow.triggers.replicas import ReplicasSettledTrigger


class ReplicasSettledSensor(CellSensor):
    """Succeed when the consumers are back at the policy's floor, or after timeouts.settle_seconds.

    Leaves nothing behind; safe to retry. After the time limit the run goes on, and its verdict
    notes that the replicas had not come down.
    """

    HOLD_SECONDS = 1.0

    def wait_seconds(self, cell: CellRun) -> float:
        """Wait as long as the scenario allows."""
        return cell.scenario.timeouts.settle_seconds

    def trigger(self, cell: CellRun, deadline_at: float) -> ConditionTrigger:
        """Return the condition: at the floor, nothing terminating."""
        return ReplicasSettledTrigger(
            run_id=cell.names.run_id,
            replicas=policy_limits(cell.policy).floor_replicas,
            kubernetes_conn_id=self.kubernetes_conn_id,
            deadline_at=deadline_at,
            hold_seconds=self.HOLD_SECONDS,
            poll_seconds=self.poll_seconds,
        )
