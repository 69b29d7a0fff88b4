"""Publish read offsets to a group that has no members, so that a lag trigger can read them."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition

from lagbench.adapters.kafka.recovery import RECOVERY
from lagbench.errors import NotReady

_ANSWER_SECONDS = 10.0


class OffsetPublisher:
    """Commits offsets of one topic to one group without joining it; used by one thread at a time.

    The broker takes such a commit only while the group has no members.
    """

    def __init__(self, bootstrap_servers: str, group: str, topic: str) -> None:
        """Open a client; it never subscribes."""
        self._group, self._topic = group, topic
        self._client = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "enable.auto.commit": False,
                "client.id": "lagbench-offset-publisher",
                **RECOVERY,
                "log_level": 4,
            }
        )

    def publish(self, offsets: Mapping[int, int]) -> None:
        """Set the group's offsets: next offset to read, by partition.

        :raises NotReady: the broker does not take them, for example because the group has members.
        """
        places = [TopicPartition(self._topic, p, at) for p, at in sorted(offsets.items())]
        try:
            answered = self._client.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            raise NotReady(f"could not publish to {self._group}: {error.args[0].str()}") from error
        refused = [place.error for place in answered or [] if place.error is not None]
        if refused:
            raise NotReady(f"could not publish to {self._group}: {refused[0].str()}")

    def published(self) -> dict[int, int]:
        """Return the group's offsets; partitions without one are left out.

        :raises NotReady: the broker does not answer.
        """
        try:
            answered = self._client.committed(self._places(), timeout=_ANSWER_SECONDS)
        except KafkaException as error:
            raise NotReady(f"no offsets of {self._group}: {error.args[0].str()}") from error
        return {at.partition: at.offset for at in answered if at.offset != OFFSET_INVALID}

    def starts(self) -> dict[int, int]:
        """Return the first offset of each partition.

        :raises NotReady: the broker does not answer.
        """
        try:
            return {
                place.partition: self._client.get_watermark_offsets(place, _ANSWER_SECONDS)[0]
                for place in self._places()
            }
        except KafkaException as error:
            raise NotReady(f"no offsets of {self._topic}: {error.args[0].str()}") from error

    def _places(self) -> list[TopicPartition]:
        topics = self._client.list_topics(self._topic, _ANSWER_SECONDS).topics
        return [TopicPartition(self._topic, number) for number in topics[self._topic].partitions]
