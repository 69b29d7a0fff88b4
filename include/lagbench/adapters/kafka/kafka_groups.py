"""A consumer group as its coordinator describes it."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import ConsumerGroupState, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it has no __all__
    ConsumerGroupDescription,
)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a consumer group and its partitions as (topic, partition), ascending."""

    member_id: str
    client_id: str
    instance_id: str | None
    host: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group as its coordinator reports it; a group that does not exist has the state DEAD."""

    group_id: str
    state: str
    protocol: str
    assignor: str
    members: tuple[GroupMember, ...]

    @property
    def is_stable(self) -> bool:
        """True when the group has members and none waits for a rebalance."""
        return self.state == ConsumerGroupState.STABLE.name and bool(self.members)


def group_snapshot(description: ConsumerGroupDescription) -> GroupSnapshot:
    """Return what the client read, members in a fixed order."""
    members = [
        GroupMember(
            member_id=member.member_id,
            client_id=member.client_id,
            instance_id=member.group_instance_id or None,
            host=member.host,
            partitions=tuple(
                sorted((place.topic, place.partition) for place in _assigned(member.assignment))
            ),
        )
        for member in description.members
    ]
    return GroupSnapshot(
        group_id=description.group_id,
        state=description.state.name,
        protocol=description.type.name,
        assignor=description.partition_assignor,
        members=tuple(sorted(members, key=lambda member: (member.client_id, member.member_id))),
    )


def _assigned(assignment: object) -> list[TopicPartition]:
    return list(getattr(assignment, "topic_partitions", None) or [])
