"""Make librdkafka fetch at once after a resume.

Its broker thread sleeps up to a second when every partition of the broker is paused, and a resume
does not wake it: the thread looks again after its sleep or when a request passes through.
librdkafka itself pauses and resumes everything around each incremental rebalance (seen with 2.16.1:
retained partitions stood still for up to 0.67 s). So this module sends a small request.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaException, TopicPartition

log = logging.getLogger(__name__)

_ANSWER_SECONDS = 0.5


class FetchWakeup:
    """Sends one watermark query to the leader of each partition given."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        """Wake the fetchers of ``consumer``."""
        self._consumer = consumer
        self._topic = topic
        self._leaders: dict[int, int] = {}

    def wake(self, partitions: Iterable[int]) -> None:
        """Wake the brokers' threads that fetch ``partitions``; an unreachable broker is skipped."""
        wanted = list(partitions)
        if not wanted:
            return
        try:
            if not self._leaders.keys() >= set(wanted):
                self._leaders = self._read_leaders()
            for partition in {self._leaders.get(number, -1): number for number in wanted}.values():
                asked = TopicPartition(self._topic, partition)
                self._consumer.get_watermark_offsets(asked, _ANSWER_SECONDS, cached=False)
        except KafkaException as error:
            self._leaders = {}
            log.warning("fetchers were not woken: %s", error.args[0])

    def _read_leaders(self) -> dict[int, int]:
        topics = self._consumer.list_topics(self._topic, _ANSWER_SECONDS).topics
        partitions = topics[self._topic].partitions
        return {number: int(metadata.leader) for number, metadata in partitions.items()}
