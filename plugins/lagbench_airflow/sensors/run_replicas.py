"""Sensor on the replicas of the run's consumers: the counts at which the policy rests."""

from __future__ import annotations

from lagbench.core.scenario.stream import resting_replicas
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.sensors.run_sensor import RunSensor
from lagbench_airflow.triggers.condition import ConditionTrigger
from lagbench_airflow.triggers.replicas import ReplicasSettledTrigger


class RunReplicasSettledSensor(RunSensor):
    """Succeed when the consumers are back at rest, or after timeouts.settle_seconds.

    At rest is the policy's floor, held for ``HOLD_SECONDS``. Leaves nothing behind; safe to retry.
    After the time limit the run continues; its verdict notes that the replicas had not come down.
    """

    HOLD_SECONDS = 1.0
    HOLD_UNDER_LOAD_SECONDS = 16.0
    """One sync of the HPA (15 s): the cost of the last step under load and a reversal by the policy
    are visible before the load ends."""

    def wait_seconds(self, cell: CellRun) -> float:
        """Wait as long as the scenario allows."""
        return cell.scenario.timeouts.settle_seconds

    def trigger(self, cell: CellRun, deadline_at: float) -> ConditionTrigger:
        """Return the condition: at rest, nothing terminating."""
        tail, limits = cell.tail, cell.last_policy.limits
        least, most = resting_replicas(
            cell.scenario,
            tail,
            floor_replicas=limits.floor_replicas,
            ceiling_replicas=limits.ceiling_replicas,
        )
        return ReplicasSettledTrigger(
            workload=cell.names.consumers,
            kind=cell.scenario.consumer.workload,
            least=least,
            most=most,
            run_id=cell.names.run_id,
            kubernetes_conn_id=self.kubernetes_conn_id,
            deadline_at=deadline_at,
            hold_seconds=self.HOLD_SECONDS if tail is None else self.HOLD_UNDER_LOAD_SECONDS,
            poll_seconds=self.poke_interval,
        )
