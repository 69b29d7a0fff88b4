"""Condition on the run's consumer group: stable, complete, every partition owned once."""

from __future__ import annotations

from typing import Any

from lagbench.core.run import CONSUMER_DEPLOYMENT, RunNames
from lagbench_airflow.triggers.condition import ConditionTrigger, Reading

_WITHOUT_MEMBERS = ("EMPTY", "DEAD")


class ConsumerGroupStableTrigger(ConditionTrigger):
    """Fires when the group is stable with one member per wanted replica."""

    def __init__(
        self, *, run_id: str, kafka_conn_id: str, kubernetes_conn_id: str, **bounds: float
    ) -> None:
        """Name the run and the connections."""
        super().__init__(**bounds)
        self.run_id = run_id
        self.kafka_conn_id = kafka_conn_id
        self.kubernetes_conn_id = kubernetes_conn_id

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return {
            "run_id": self.run_id,
            "kafka_conn_id": self.kafka_conn_id,
            "kubernetes_conn_id": self.kubernetes_conn_id,
        }

    def read(self) -> Reading:
        """Compare members and owned partitions with what there should be."""
        names = RunNames(self.run_id)
        kube = self.clients.kube(self.kubernetes_conn_id)
        deployment = kube.get("Deployment", CONSUMER_DEPLOYMENT) or {}
        wanted = int((deployment.get("spec") or {}).get("replicas") or 0)
        admin = self.clients.kafka_admin(self.kafka_conn_id)
        # First, for it fails while the broker is away: a request to a group's coordinator that
        # times out then can end the process (see adapters/kafka_lag.py).
        partitions = admin.partition_counts([names.events_topic]).get(names.events_topic, 0)
        group = admin.describe_group(names.group)
        owned = sorted(
            partition
            for member in group.members
            for topic, partition in member.partitions
            if topic == names.events_topic
        )
        if wanted == 0:
            is_met = group.state in _WITHOUT_MEMBERS
        else:
            is_complete = len(group.members) == wanted and owned == list(range(partitions))
            is_met = group.is_stable and is_complete
        seen = {
            "state": group.state,
            "members": len(group.members),
            "wanted_members": wanted,
            "owned_partitions": len(owned),
            "partitions": partitions,
        }
        return Reading(is_met=is_met, seen=seen)
