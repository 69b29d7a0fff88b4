"""Publish read offsets to a group that has no members, so that a lag trigger can read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from lagbench.adapters.kafka.client_settings import own_settings
from lagbench.adapters.kafka.recovery import RECOVERY
from lagbench.errors import NotReady

_ANSWER_SECONDS = 10.0
_PATIENCE_SECONDS, _AGAIN_SECONDS = 30.0, 0.2
# A broker that has just started, or starts again, creates and loads its coordinators.
_PASSING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError._TIMED_OUT,  # noqa: SLF001 - librdkafka's local codes are spelt so in its API
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
    }
)
Answer = TypeVar("Answer")


class OffsetPublisher:
    """Commits offsets of one topic to one group without joining it; used by one thread at a time.

    The broker takes such a commit only while the group has no members.
    """

    def __init__(self, bootstrap_servers: str, group: str, topic: str) -> None:
        """Open a client; it never subscribes."""
        self._group, self._topic = group, topic
        self._client = Consumer(
            {
                **own_settings(bootstrap_servers),
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
        answered = self._patiently(
            lambda: self._client.commit(offsets=places, asynchronous=False),
            f"could not publish to {self._group}",
        )
        refused = [place.error for place in answered or [] if place.error is not None]
        if refused:
            raise NotReady(f"could not publish to {self._group}: {refused[0].str()}")

    def published(self) -> dict[int, int]:
        """Return the group's offsets; partitions without one are left out.

        :raises NotReady: the broker does not answer.
        """
        answered = self._patiently(
            lambda: self._client.committed(self._places(), timeout=_ANSWER_SECONDS),
            f"no offsets of {self._group}",
        )
        return {at.partition: at.offset for at in answered if at.offset != OFFSET_INVALID}

    def starts(self) -> dict[int, int]:
        """Return the first offset of each partition.

        :raises NotReady: the broker does not answer.
        """
        return self._patiently(
            lambda: {
                place.partition: self._client.get_watermark_offsets(place, _ANSWER_SECONDS)[0]
                for place in self._places()
            },
            f"no offsets of {self._topic}",
        )

    def _patiently(self, call: Callable[[], Answer], what: str) -> Answer:
        """Return the answer of a call, made again while the broker is about to be able to answer.

        :raises NotReady: it could not answer within ``_PATIENCE_SECONDS``, or never will.
        """
        give_up_at = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return call()
            except KafkaException as error:
                if error.args[0].code() not in _PASSING or time.monotonic() > give_up_at:
                    raise NotReady(f"{what}: {error.args[0].str()}") from error
            time.sleep(_AGAIN_SECONDS)

    def _places(self) -> list[TopicPartition]:
        topics = self._client.list_topics(self._topic, _ANSWER_SECONDS).topics
        return [TopicPartition(self._topic, number) for number in topics[self._topic].partitions]
