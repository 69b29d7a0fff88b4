"""Sensor on the end of the planned load."""

from __future__ import annotations

from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.sensors.run_sensor import RunSensor
from lagbench_airflow.triggers.condition import ConditionTrigger
from lagbench_airflow.triggers.producer_job import TrafficFinishedTrigger

FLUSH_ALLOWANCE_SECONDS = 330.0
"""After the last event: librdkafka gives up on a message after 300 s, then the Job ends."""


def stream_seconds(cell: CellRun) -> float:
    """Return how long the planned traffic may last: its profile, and the longest flush."""
    from lagbench.core.scenario.stream import offered_load

    return offered_load(cell.scenario.profile).duration_seconds + FLUSH_ALLOWANCE_SECONDS


class TrafficFinishedSensor(RunSensor):
    """Succeed when the planned window of the stream has ended; its tail may continue.

    Leaves nothing behind; safe to retry. Without a tail, and when the generator failed, the end of
    its Job is the end of the traffic. A failure does not stop the run: the sent load is measured,
    and the verdict calls the run invalid.
    """

    is_of_run = True

    def wait_seconds(self, cell: CellRun) -> float:
        """Wait as long as the stream may last."""
        return stream_seconds(cell)

    def trigger(self, cell: CellRun, deadline_at: float) -> ConditionTrigger:
        """Return the condition: the planned window, or the Job, has ended."""
        return TrafficFinishedTrigger(
            job=cell.names.producer_job,
            ends_at=cell.traffic_ends_at,
            kubernetes_conn_id=self.kubernetes_conn_id,
            deadline_at=deadline_at,
            hold_seconds=0.0,
            poll_seconds=self.poke_interval,
        )
