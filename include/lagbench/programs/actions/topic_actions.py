"""The action on the events topic: more partitions."""

from __future__ import annotations

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.core.scenario import GrowPartitions
from lagbench.programs.actions.performer import Performer


class GrowsTopic(Performer[GrowPartitions]):
    """Gives the topic more partitions; ends when all have a leader. It stays."""

    def choose(self) -> list[str]:
        """Name the topic."""
        return [self.stage.options.topic]

    def act(self) -> None:
        """Grow it, through the broker's admin API."""
        options = self.stage.options
        with KafkaAdmin({"bootstrap.servers": options.bootstrap_servers}) as admin:
            before = admin.partition_counts([options.topic]).get(options.topic, 0)
            admin.grow_topic(options.topic, self.action.partitions)
        self.detail = f"{before} to {self.action.partitions} partitions"
