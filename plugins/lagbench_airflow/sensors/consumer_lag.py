"""Sensors on the lag of a consumer group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from lagbench_airflow.sensors.condition_sensor import ConditionSensor
from lagbench_airflow.triggers.conditions import Lag


class _ConsumerLagSensor(ConditionSensor):
    """Compares the lag of a group on a topic with a threshold.

    The lag of a partition is its end minus the committed offset, in messages. Without a commit it
    is all that the partition still keeps.
    """

    number_fields = ("threshold_records", "hold")
    template_fields: Sequence[str] = ("topic", "group", "kafka_conn_id", *number_fields)
    _is_above: ClassVar[bool]

    def __init__(
        self,
        *,
        topic: str,
        group: str,
        threshold_records: int,
        per_partition: bool = False,
        kafka_conn_id: str = "kafka_default",
        **kwargs: Any,
    ) -> None:
        """Keep the arguments; nothing is read before the task runs."""
        super().__init__(**kwargs)
        self.topic, self.group = topic, group
        self.threshold_records, self.per_partition = threshold_records, per_partition
        self.kafka_conn_id = kafka_conn_id
        self.check_numbers("threshold_records")

    def condition(self) -> Lag:
        """Return the comparison."""
        return Lag(
            topic=self.topic,
            group=self.group,
            threshold_records=self.threshold_records,
            is_above=self._is_above,
            per_partition=self.per_partition,
            kafka_conn_id=self.kafka_conn_id,
        )


class ConsumerLagAboveSensor(_ConsumerLagSensor):
    """Succeed when the lag of a consumer group exceeds a threshold.

    :param topic: the topic (templated, as group, connection, threshold and hold).
    :param group: the consumer group.
    :param threshold_records: messages; the lag must be above them.
    :param per_partition: compare the partition with the most lag, not the total.
    :param kafka_conn_id: connection of type ``kafka``, with librdkafka's settings in its extra.
    """

    _is_above = True


class ConsumerLagDrainedSensor(_ConsumerLagSensor):
    """Succeed when the lag of a consumer group is at most a threshold; by default none is left.

    Under load some messages are always in progress, so a threshold of 0 may never be reached then.
    The parameters are those of ``ConsumerLagAboveSensor``.
    """

    _is_above = False

    def __init__(self, *, threshold_records: int = 0, **kwargs: Any) -> None:
        """Keep the arguments; nothing is read before the task runs."""
        super().__init__(threshold_records=threshold_records, **kwargs)
