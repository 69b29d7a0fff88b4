"""Sensor on the membership of a consumer group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lagbench_airflow.sensors.condition_sensor import ConditionSensor
from lagbench_airflow.triggers.conditions import GroupStable


class ConsumerGroupStableSensor(ConditionSensor):
    """Succeed when no rebalance of a group is in progress and it has its members.

    :param group: the consumer group (templated, as topic, connection, members and hold).
    :param topic: each partition of it must have exactly one owner. Empty: not checked.
    :param members: the number of members; 0: the group is empty. None: at least one.
    :param kafka_conn_id: connection of type ``kafka``, with librdkafka's settings in its extra.
    """

    number_fields = ("members", "hold")
    template_fields: Sequence[str] = ("group", "topic", "kafka_conn_id", *number_fields)

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
        self.check_numbers("members")

    def condition(self) -> GroupStable:
        """Return the condition: stable and complete."""
        return GroupStable(
            group=self.group,
            topic=self.topic,
            members=self.members,
            kafka_conn_id=self.kafka_conn_id,
        )
