"""The action on the topic of the events: more partitions, permanently."""

from __future__ import annotations

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.core.scenario.actions import GrowPartitions
from lagbench.errors import NotReady
from lagbench.programs.actions.performer import Performer

_ANSWER_SECONDS = 30.0


class GrownTopic(Performer[GrowPartitions]):
    """Adds partitions; ends when each has a leader. Kafka cannot remove them."""

    def choose(self) -> list[str]:
        """Name the topic."""
        topic = self.stage.options.topic
        with self._admin() as admin:
            before = admin.partition_counts([topic]).get(topic)
        if before is None or before >= self.action.partitions:
            raise NotReady(f"topic {topic} has {before or 'no'} partitions: it cannot grow")
        return [topic]

    def act(self) -> None:
        """Grow it; return when the new partitions can be written and read."""
        topic, wanted = self.stage.options.topic, self.action.partitions
        with self._admin() as admin:
            before = admin.grow_topic(topic, wanted)
        if before >= wanted:
            raise NotReady(f"topic {topic} has {before} partitions: it did not grow")
        self.detail = f"from {before} to {wanted} partitions"

    def _admin(self) -> KafkaAdmin:
        return KafkaAdmin(self.stage.options.bootstrap_servers, timeout_seconds=_ANSWER_SECONDS)
