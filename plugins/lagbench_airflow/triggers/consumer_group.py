"""Condition on a consumer group: stable, complete, every partition owned once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lagbench.errors import NotReady
from lagbench_airflow.triggers.condition import ConditionTrigger, Reading

if TYPE_CHECKING:
    from lagbench.adapters.kafka.kafka_groups import GroupSnapshot

WITHOUT_MEMBERS = ("EMPTY", "DEAD")


class ConsumerGroupStableTrigger(ConditionTrigger):
    """Fires when the group is stable, with ``members`` members (None: any number above 0).

    With a ``topic`` each of its partitions has exactly one owner. With 0 members the group is empty
    or does not exist.
    """

    def __init__(
        self,
        *,
        group: str,
        kafka_conn_id: str,
        topic: str = "",
        members: int | None = None,
        **bounds: float,
    ) -> None:
        """Name the group, what it must be like, and the connection."""
        super().__init__(**bounds)
        self.group, self.topic, self.members = group, topic, members
        self.kafka_conn_id = kafka_conn_id

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return {
            "group": self.group,
            "topic": self.topic,
            "members": self.members,
            "kafka_conn_id": self.kafka_conn_id,
        }

    def read(self) -> Reading:
        """Describe the group and judge it."""
        partitions = self.partitions()
        return self.judged(self.described(), partitions=partitions, wanted=self.members)

    def partitions(self) -> int | None:
        """Return the partitions of the topic, None without a topic.

        Call it before ``described``, because it fails while the broker is down: a request to a
        group's coordinator that times out then can end the process (see
        adapters/kafka/kafka_lag.py).
        """
        admin = self.clients.kafka_admin(self.kafka_conn_id)
        if not self.topic:
            admin.check_reachable()
            return None
        counts = admin.partition_counts([self.topic])
        if self.topic not in counts:
            raise NotReady(f"the topic {self.topic} does not exist")
        return counts[self.topic]

    def described(self) -> GroupSnapshot:
        """Return the group as its coordinator describes it."""
        return self.clients.kafka_admin(self.kafka_conn_id).describe_group(self.group)

    def judged(
        self, group: GroupSnapshot, *, partitions: int | None, wanted: int | None
    ) -> Reading:
        """Compare members and owned partitions with the expected ones."""
        seen: dict[str, Any] = {
            "state": group.state,
            "members": len(group.members),
            "wanted_members": "any" if wanted is None else wanted,
        }
        is_complete = wanted in (None, len(group.members))
        if partitions is not None:
            owned = _owned(group, self.topic)
            seen |= {"owned_partitions": len(owned), "partitions": partitions}
            is_complete = is_complete and owned == list(range(partitions))
        if wanted == 0:
            return Reading(is_met=group.state in WITHOUT_MEMBERS, seen=seen)
        return Reading(is_met=group.is_stable and is_complete, seen=seen)


def _owned(group: GroupSnapshot, topic: str) -> list[int]:
    """Return the partitions of the topic that a member holds; twice if two hold it."""
    return sorted(
        partition
        for member in group.members
        for name, partition in member.partitions
        if name == topic
    )
