"""Ask a broker what a topic took and when, by the timestamps in its log; nothing is consumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from confluent_kafka import TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec  # type: ignore[attr-defined]  # it has no __all__

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.core.measures.model import Ints
from lagbench.errors import WrongInput

_AT_ONCE = 32
"""Requests under way; each is for all partitions."""
_SPEC: Any = OffsetSpec  # its methods carry no types


class TopicHistory(KafkaAdmin):
    """A connection that reads offsets by time."""

    def partitions(self, topic: str) -> int:
        """Return how many partitions the topic has."""
        count = self.partition_counts([topic]).get(topic)
        if count is None:
            allowed = "a topic that exists and this account may describe"
            raise WrongInput(where="command line", field="--topic", value=topic, allowed=allowed)
        return count

    def offsets_by_time(self, topic: str, instants_ms: Sequence[int]) -> Ints:
        """Return [instant, partition]: the offset of the first message that is not older.

        Where nothing came from then on, that is the end of the log.
        """
        count, purpose = self.partitions(topic), f"read offsets of {topic} by time"
        ends = self.end_offsets(topic)  # read first: what comes from now on is not of the past
        found = np.empty((len(instants_ms), count), dtype=np.int64)
        for first in range(0, len(instants_ms), _AT_ONCE):
            asked = [
                self._client.list_offsets(
                    {TopicPartition(topic, one): _SPEC.for_timestamp(at) for one in range(count)},
                    request_timeout=self._timeout_seconds,
                )
                for at in instants_ms[first : first + _AT_ONCE]
            ]
            for row, futures in enumerate(asked, start=first):
                for place, future in futures.items():
                    offset = int(self._answer(future, purpose).offset)
                    at_end = ends[place.partition]
                    found[row, place.partition] = at_end if offset < 0 else min(offset, at_end)
        return np.maximum.accumulate(found, axis=0)

    def settings(self, topic: str) -> dict[str, str]:
        """Return the settings of a topic by name."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        asked = self._client.describe_configs([resource], request_timeout=self._timeout_seconds)
        found = self._answer(asked[resource], f"read the settings of {topic}")
        return {name: str(entry.value) for name, entry in found.items()}
