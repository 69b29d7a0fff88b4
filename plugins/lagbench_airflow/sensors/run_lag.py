"""Sensors on the lag of the run's consumer groups: the run's own thresholds and limits."""

from __future__ import annotations

from lagbench.core.keda.triggers import KAFKA_DEFAULT_LAG_THRESHOLD
from lagbench.core.scenario.stream import resting_lag_records
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.sensors.run_sensor import RunSensor
from lagbench_airflow.sensors.traffic_finished import stream_seconds
from lagbench_airflow.triggers.condition import ConditionTrigger
from lagbench_airflow.triggers.consumer_lag import ConsumerLagAtMostTrigger, RunLagAboveTrigger


class RunLagAboveSensor(RunSensor):
    """Succeed when total lag exceeds the policy's lagThreshold, or when it no longer can.

    Leaves nothing behind; safe to retry. A lag that never rises (reached is False) is a result
    that the verdict judges, not a failure of the run.
    """

    def wait_seconds(self, cell: CellRun) -> float:
        """Wait as long as the stream may last."""
        return stream_seconds(cell)

    def trigger(self, cell: CellRun, deadline_at: float) -> ConditionTrigger:
        """Return the condition: lag above the threshold."""
        return RunLagAboveTrigger(
            topic=cell.names.events_topic,
            group=cell.names.group,
            threshold_records=int(_threshold(cell)),
            run_id=cell.names.run_id,
            traffic_ends_at=cell.traffic_ends_at,
            kafka_conn_id=self.kafka_conn_id,
            kubernetes_conn_id=self.kubernetes_conn_id,
            deadline_at=deadline_at,
            hold_seconds=0.0,
            poll_seconds=self.poke_interval,
        )


def _threshold(cell: CellRun) -> float:
    stated = cell.policy.limits.lag_threshold_records
    return stated or KAFKA_DEFAULT_LAG_THRESHOLD


class RunLagAtRestSensor(RunSensor):
    """Succeed when the lag of the spike has drained, or after timeouts.drain_seconds.

    That is a total lag at the policy's lagThreshold. Under the base load of the tail it is never 0,
    because messages since the last commit are always in flight. Leaves nothing behind; safe to
    retry. After the time limit the run continues, and the verdict judges the drain.
    """

    def wait_seconds(self, cell: CellRun) -> float:
        """Wait as long as the scenario allows."""
        return cell.scenario.timeouts.drain_seconds

    def trigger(self, cell: CellRun, deadline_at: float) -> ConditionTrigger:
        """Return the condition: no more lag than the base load keeps in flight."""
        return ConsumerLagAtMostTrigger(
            topic=cell.names.events_topic,
            group=cell.names.group,
            threshold_records=resting_lag_records(cell.tail, lag_threshold=_threshold(cell)),
            kafka_conn_id=self.kafka_conn_id,
            deadline_at=deadline_at,
            hold_seconds=0.0,
            poll_seconds=self.poke_interval,
        )


class RunLagDrainedSensor(RunSensor):
    """Succeed when total lag has been 0 for ``HOLD_SECONDS``, or after timeouts.drain_seconds.

    It comes after all traffic, including the tail. Leaves nothing behind; safe to retry. After the
    time limit the run continues and the verdict is undetermined: a run that never drained proves
    neither loss nor its absence.
    """

    HOLD_SECONDS = 2.0

    def wait_seconds(self, cell: CellRun) -> float:
        """Wait as long as the scenario allows."""
        return cell.scenario.timeouts.drain_seconds

    def trigger(self, cell: CellRun, deadline_at: float) -> ConditionTrigger:
        """Return the condition: nothing left to commit."""
        return ConsumerLagAtMostTrigger(
            topic=cell.names.events_topic,
            group=cell.names.group,
            threshold_records=0,
            kafka_conn_id=self.kafka_conn_id,
            deadline_at=deadline_at,
            hold_seconds=self.HOLD_SECONDS,
            poll_seconds=self.poke_interval,
        )
