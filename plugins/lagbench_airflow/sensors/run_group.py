"""Sensor on the membership of the run's consumer group."""

from __future__ import annotations

from typing import ClassVar

from lagbench.core.scenario import kind_of
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.sensors.run_sensor import RunSensor
from lagbench_airflow.triggers.condition import ConditionTrigger
from lagbench_airflow.triggers.run_group import RunGroupStableTrigger


class RunGroupStableSensor(RunSensor):
    """Succeed when the group has been stable, with every partition owned, for ``HOLD_SECONDS``.

    Leaves nothing behind; safe to retry. Fails after ``WAIT_SECONDS``: a spike into a group that
    still rebalances would measure the start-up, not the policy.
    """

    HOLD_SECONDS = 1.0
    WAIT_SECONDS = 120.0
    fails_on_timeout = True
    refuses_strangers: ClassVar[bool] = True
    """A member that is not a pod ends the run before its spike; at the end the verdict judges it.
    """

    def wait_seconds(self, cell: CellRun) -> float:  # noqa: ARG002 - the same for every run
        """Wait two minutes: a join of 24 members took 10.6 s at worst (KIP-848)."""
        return self.WAIT_SECONDS

    def trigger(self, cell: CellRun, deadline_at: float) -> ConditionTrigger:
        """Return the condition: stable and complete."""
        consumer = cell.scenario.consumer
        kind = kind_of(consumer.kind)
        return RunGroupStableTrigger(
            run_id=cell.names.run_id,
            is_second=cell.names.is_second,
            workload=consumer.workload,
            has_members=kind.has_members,
            client_id=None if kind.has_reports else consumer.client_id or "",
            members_per_pod=consumer.members_per_pod,
            refuses_strangers=self.refuses_strangers,
            kafka_conn_id=self.kafka_conn_id,
            kubernetes_conn_id=self.kubernetes_conn_id,
            deadline_at=deadline_at,
            hold_seconds=self.HOLD_SECONDS,
            poll_seconds=self.poke_interval,
        )


class RunGroupSettledSensor(RunGroupStableSensor):
    """Succeed when the group is stable again at the end of the run, or after its session timeout.

    A pod that was killed shortly before the end stays a member until its session times out. Until
    then its partitions have no worker. With the fence before that time nothing could be judged.
    Leaves nothing behind; safe to retry. After the time limit the run continues, and the verdict
    judges the group as it is.
    """

    MARGIN_SECONDS = 30.0
    """Time for the replacement pod to start and for the group to hand over."""
    fails_on_timeout = False
    refuses_strangers = False

    def wait_seconds(self, cell: CellRun) -> float:
        """Wait for a dead member's session to end."""
        return cell.scenario.longest_session_seconds + self.MARGIN_SECONDS
