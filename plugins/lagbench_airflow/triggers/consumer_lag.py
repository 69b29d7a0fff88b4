"""Conditions on the total lag of the run's consumer group."""

from __future__ import annotations

from typing import Any

from lagbench.core.scenario import RunNames
from lagbench_airflow.triggers.condition import ConditionTrigger, Reading
from lagbench_airflow.triggers.producer_job import traffic_end


class _ConsumerLagTrigger(ConditionTrigger):
    """Reads the lag of one group of a run."""

    def __init__(
        self, *, run_id: str, kafka_conn_id: str, is_second: bool = False, **bounds: float
    ) -> None:
        """Name the run, which of its groups, and the connection."""
        super().__init__(**bounds)
        self.run_id, self.is_second = run_id, is_second
        self.kafka_conn_id = kafka_conn_id

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return {
            "run_id": self.run_id,
            "is_second": self.is_second,
            "kafka_conn_id": self.kafka_conn_id,
        }

    def total_lag(self) -> int:
        """Return the messages that the group has not committed yet."""
        names = RunNames(self.run_id, is_second=self.is_second)
        return self.clients.lag_reader(self.kafka_conn_id).total_lag(
            names.group, names.events_topic
        )


class ConsumerLagAboveTrigger(_ConsumerLagTrigger):
    """Fires when the total lag exceeds a threshold; moot once the planned traffic has ended."""

    def __init__(
        self,
        *,
        above_records: int,
        traffic_ends_at: float | None,
        kubernetes_conn_id: str,
        **arguments: Any,
    ) -> None:
        """Keep the threshold, and the source for the end of the traffic."""
        super().__init__(**arguments)
        self.above_records = above_records
        self.traffic_ends_at = traffic_ends_at
        self.kubernetes_conn_id = kubernetes_conn_id

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return super().parameters() | {
            "above_records": self.above_records,
            "traffic_ends_at": self.traffic_ends_at,
            "kubernetes_conn_id": self.kubernetes_conn_id,
        }

    def read(self) -> Reading:
        """Compare the lag with the threshold."""
        lag = self.total_lag()
        if lag > self.above_records:
            return Reading(is_met=True, seen={"total_lag": lag})
        kube = self.clients.kube(self.kubernetes_conn_id)
        end = traffic_end(kube, RunNames(self.run_id).producer_job, self.traffic_ends_at)
        return Reading(is_met=False, seen={"total_lag": lag}, is_moot=end is not None)


class ConsumerLagAtMostTrigger(_ConsumerLagTrigger):
    """Fires when the total lag is at or below a number; 0: everything written is committed."""

    def __init__(self, *, at_most_records: int, **arguments: Any) -> None:
        """Keep the number."""
        super().__init__(**arguments)
        self.at_most_records = at_most_records

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return super().parameters() | {"at_most_records": self.at_most_records}

    def read(self) -> Reading:
        """Compare the lag with the number."""
        lag = self.total_lag()
        return Reading(is_met=lag <= self.at_most_records, seen={"total_lag": lag})
