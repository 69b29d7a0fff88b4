"""Sensor on the membership of a consumer group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lagbench_airflow.sensors.condition_sensor import ConditionSensor
from lagbench_airflow.triggers.condition import ConditionTrigger
from lagbench_airflow.triggers.consumer_group import ConsumerGroupStableTrigger


class ConsumerGroupStableSensor(ConditionSensor):
    """Succeed when no rebalance of a group is in progress and it has its members.

    :param group: the consumer group (templated, as ``topic`` and ``kafka_conn_id``).
    :param topic: each partition of it must have exactly one owner. Empty: not checked.
    :param members: the number of members; 0: the group is empty. None: at least one.
    :param kafka_conn_id: connection of type ``kafka``, with librdkafka's settings in its extra.
    """

    template_fields: Sequence[str] = ("group", "topic", "kafka_conn_id")

    def __init__(
        self,
        *,
        group: str,
        topic: str = "",
        members: int | None = None,
        kafka_conn_id: str = "kafka_default",
        **kwargs: Any,
    ) -> None:
        """Keep the arguments; nothing is read before the task runs."""
        super().__init__(**kwargs)
        self.group, self.topic, self.members = group, topic, members
        self.kafka_conn_id = kafka_conn_id
        self.require_at_least_zero(members=members)

    def condition(self, deadline_at: float) -> ConditionTrigger:
        """Return the condition: stable and complete."""
        return ConsumerGroupStableTrigger(
            group=self.group,
            topic=self.topic,
            members=self.members,
            kafka_conn_id=self.kafka_conn_id,
            deadline_at=deadline_at,
            hold_seconds=self.hold_seconds,
            poll_seconds=self.poke_interval,
        )

    def check_connections(self) -> None:
        """Read the connection to Kafka."""
        from lagbench_airflow.hooks.kafka import KafkaHook

        KafkaHook(self.kafka_conn_id).settings()
