"""Sensor on the end of the scenario's actions."""

from __future__ import annotations

from lagbench.core.scenario import actions_seconds
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.sensors.run_sensor import RunSensor
from lagbench_airflow.triggers.actions_job import ActionsPlayedTrigger
from lagbench_airflow.triggers.condition import ConditionTrigger


class ActionsPlayedSensor(RunSensor):
    """Succeed when the player has ended: each action has ended; at once without actions.

    Leaves nothing behind; safe to retry. After the time limit the run continues: the verdict
    reports the actions that were not played.
    """

    is_of_run = True

    def wait_seconds(self, cell: CellRun) -> float:
        """Wait as long as the actions may last after the planned window and the drain."""
        scenario = cell.scenario
        return actions_seconds(scenario.actions, scenario.timeouts.drain_seconds)

    def trigger(self, cell: CellRun, deadline_at: float) -> ConditionTrigger:
        """Return the condition: the player's Job has ended."""
        return ActionsPlayedTrigger(
            job=cell.names.actions_job if cell.scenario.actions else "",
            kubernetes_conn_id=self.kubernetes_conn_id,
            deadline_at=deadline_at,
            hold_seconds=0.0,
            poll_seconds=self.poke_interval,
        )
