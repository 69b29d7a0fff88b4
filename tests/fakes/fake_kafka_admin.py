"""A Kafka cluster in memory: topics with offsets, groups with members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from lagbench.adapters.kafka.kafka_admin import GroupMember, GroupSnapshot, TopicSpec
from lagbench.errors import NotReady, StillWaiting


class FakeKafkaAdmin:
    """The verbs of ``lagbench.adapters.kafka.kafka_admin.KafkaAdmin`` on dicts."""

    def __init__(self) -> None:
        """Begin empty."""
        self.topics: dict[str, dict[int, int]] = {}
        self.specs: dict[str, TopicSpec] = {}
        self.groups: dict[str, dict[str, list[tuple[str, int]]]] = {}
        self.open_transactions: list[dict[int, int]] = []
        self.is_rebalancing = False
        self.is_down = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Nothing is open."""

    def check_reachable(self) -> int:
        """One broker."""
        self._up()
        return 1

    def topic_names(self, prefix: str = "") -> list[str]:
        """Return the topics with the prefix."""
        self._up()
        return sorted(name for name in self.topics if name.startswith(prefix))

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the partitions of those that exist."""
        self._up()
        return {name: len(self.topics[name]) for name in topics if name in self.topics}

    def create_topics(self, specs: Sequence[TopicSpec]) -> None:
        """Leave a topic that exists."""
        self._up()
        for spec in specs:
            self.topics.setdefault(spec.name, dict.fromkeys(range(spec.partitions), 0))
            self.specs.setdefault(spec.name, spec)

    def delete_topics(self, names: Sequence[str]) -> None:
        """Accept a topic that is gone."""
        self._up()
        for name in names:
            self.topics.pop(name, None)

    def group_ids(self, prefix: str = "") -> list[str]:
        """Return the groups with the prefix."""
        self._up()
        return sorted(name for name in self.groups if name.startswith(prefix))

    def delete_group(self, group_id: str) -> None:
        """Reject a group that has members, as a broker does."""
        self._up()
        if self.groups.get(group_id):
            raise StillWaiting(f"group {group_id} still has members")
        self.groups.pop(group_id, None)

    def describe_group(self, group_id: str) -> GroupSnapshot:
        """Return state and members."""
        self._up()
        members = self.groups.get(group_id)
        if members is None:
            return GroupSnapshot(group_id, "DEAD", "", "", ())
        state = "STABLE" if members else "EMPTY"
        if self.is_rebalancing:
            state = "PREPARING_REBALANCING"
        seen = tuple(
            GroupMember(member, member, None, "127.0.0.1", tuple(places))
            for member, places in sorted(members.items())
        )
        return GroupSnapshot(group_id, state, "CLASSIC", "range", seen)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return the ends."""
        self._up()
        return dict(self.topics[topic])

    def committed_end_offsets(self, topic: str) -> dict[int, int]:
        """Return the ends, or where a transaction is open; each look brings one to its end."""
        self._up()
        return self.topics[topic] | (
            self.open_transactions.pop(0) if self.open_transactions else {}
        )

    def _up(self) -> None:
        if self.is_down:
            raise NotReady("the broker does not answer")
