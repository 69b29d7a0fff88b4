"""Conditions on the total lag of the run's consumer group."""

from __future__ import annotations

from typing import Any

from lagbench.core.run import RunNames
from lagbench_airflow.triggers.condition import ConditionTrigger, Reading
from lagbench_airflow.triggers.producer_job import job_end


class _ConsumerLagTrigger(ConditionTrigger):
    """Reads the lag of one run's group."""

    def __init__(self, *, run_id: str, kafka_conn_id: str, **bounds: float) -> None:
        """Name the run and the connection."""
        super().__init__(**bounds)
        self.run_id = run_id
        self.kafka_conn_id = kafka_conn_id

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return {"run_id": self.run_id, "kafka_conn_id": self.kafka_conn_id}

    def total_lag(self) -> int:
        """Return the messages that the group has not committed yet."""
        names = RunNames(self.run_id)
        return self.clients.lag_reader(self.kafka_conn_id).total_lag(
            names.group, names.events_topic
        )


class ConsumerLagAboveTrigger(_ConsumerLagTrigger):
    """Fires when the total lag exceeds a threshold; moot once the producer has ended."""

    def __init__(self, *, above_records: int, kubernetes_conn_id: str, **arguments: Any) -> None:
        """Keep the threshold and where the producer's Job is."""
        super().__init__(**arguments)
        self.above_records = above_records
        self.kubernetes_conn_id = kubernetes_conn_id

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return super().parameters() | {
            "above_records": self.above_records,
            "kubernetes_conn_id": self.kubernetes_conn_id,
        }

    def read(self) -> Reading:
        """Compare the lag with the threshold."""
        lag = self.total_lag()
        if lag > self.above_records:
            return Reading(is_met=True, seen={"total_lag": lag})
        kube = self.clients.kube(self.kubernetes_conn_id)
        ended = job_end(kube, RunNames(self.run_id).producer_job) is not None
        return Reading(is_met=False, seen={"total_lag": lag}, is_moot=ended)


class ConsumerLagDrainedTrigger(_ConsumerLagTrigger):
    """Fires when the group has committed everything up to the end of every partition."""

    def read(self) -> Reading:
        """Say whether nothing is left."""
        lag = self.total_lag()
        return Reading(is_met=lag == 0, seen={"total_lag": lag})
