"""Conditions on the lag of a consumer group on a topic."""

from __future__ import annotations

from typing import Any

from lagbench.core.scenario import RunNames
from lagbench_airflow.triggers.condition import ConditionTrigger, Reading
from lagbench_airflow.triggers.producer_job import traffic_end


class _ConsumerLagTrigger(ConditionTrigger):
    """Reads the messages that a group has not committed, in total or of its worst partition."""

    def __init__(
        self,
        *,
        topic: str,
        group: str,
        threshold_records: int,
        kafka_conn_id: str,
        per_partition: bool = False,
        **bounds: float,
    ) -> None:
        """Name the group, the threshold and the connection."""
        super().__init__(**bounds)
        self.topic, self.group = topic, group
        self.threshold_records, self.per_partition = threshold_records, per_partition
        self.kafka_conn_id = kafka_conn_id

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return {
            "topic": self.topic,
            "group": self.group,
            "threshold_records": self.threshold_records,
            "per_partition": self.per_partition,
            "kafka_conn_id": self.kafka_conn_id,
        }

    def lag(self) -> tuple[int, dict[str, Any]]:
        """Return the lag that the threshold bounds, and the observed values."""
        lags = self.clients.lag_reader(self.kafka_conn_id).lags(self.group, self.topic)
        total, largest = sum(lags.values()), max(lags.values(), default=0)
        seen = {"total_lag": total, "largest_partition_lag": largest}
        return largest if self.per_partition else total, seen


class ConsumerLagAboveTrigger(_ConsumerLagTrigger):
    """Fires when the lag exceeds the threshold; per partition: that of at least one."""

    def read(self) -> Reading:
        """Compare the lag with the threshold."""
        lag, seen = self.lag()
        return Reading(is_met=lag > self.threshold_records, seen=seen)


class ConsumerLagAtMostTrigger(_ConsumerLagTrigger):
    """Fires when the lag is at or below the threshold; per partition: that of each.

    With the threshold 0 everything written is committed.
    """

    def read(self) -> Reading:
        """Compare the lag with the threshold."""
        lag, seen = self.lag()
        return Reading(is_met=lag <= self.threshold_records, seen=seen)


class RunLagAboveTrigger(ConsumerLagAboveTrigger):
    """The same for a run: moot once its planned traffic has ended."""

    def __init__(
        self,
        *,
        run_id: str,
        traffic_ends_at: float | None,
        kubernetes_conn_id: str,
        **arguments: Any,
    ) -> None:
        """Name the source for the end of the traffic."""
        super().__init__(**arguments)
        self.run_id, self.traffic_ends_at = run_id, traffic_ends_at
        self.kubernetes_conn_id = kubernetes_conn_id

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return super().parameters() | {
            "run_id": self.run_id,
            "traffic_ends_at": self.traffic_ends_at,
            "kubernetes_conn_id": self.kubernetes_conn_id,
        }

    def read(self) -> Reading:
        """Compare the lag with the threshold; below it, look for the end of the traffic."""
        reading = super().read()
        if reading.is_met:
            return reading
        kube = self.clients.kube(self.kubernetes_conn_id)
        end = traffic_end(kube, RunNames(self.run_id).producer_job, self.traffic_ends_at)
        return Reading(is_met=False, seen=reading.seen, is_moot=end is not None)
