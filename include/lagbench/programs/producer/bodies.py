"""Make the messages of a block: lagbench's own events, or a user's samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lagbench.core.scenario.partition_plan import PartitionPlan
from lagbench.core.scenario.payload import Samples
from lagbench.core.scenario.stream.event_stream import EventBlock
from lagbench.core.scenario.stream.key_skew import partition_of_key, planned_partitions
from lagbench.shared_with_spark.event import PAYLOAD_BYTES, event_values, record_keys
from lagbench.shared_with_spark.identity import Headers, identity_headers

_DRAW_BYTES = 8  # of an event's random bytes, which draw its sample


@dataclass(frozen=True, slots=True)
class Bodies:
    """The messages of one block; with ``headers`` the identity is there and not in the value."""

    events: EventBlock
    values: list[bytes]
    keys: list[bytes]
    partitions: list[int]
    headers: list[Headers] | None = None


class MessageBodies:
    """Makes messages of events."""

    def __init__(self, partitions: PartitionPlan) -> None:
        """Place keys by ``partitions``."""
        self._partitions = partitions

    def of(self, events: EventBlock) -> Bodies:
        """Return the messages of ``events``: their own bytes, keyed by entity."""
        return Bodies(events, event_values(events), record_keys(events), self._places(events))

    def _places(self, events: EventBlock) -> list[int]:
        entities, planned = events["entity_id"], events["planned_offset_ns"]
        places: list[int] = planned_partitions(entities, planned, self._partitions).tolist()
        return places


class SampleBodies(MessageBodies):
    """Makes messages of a user's samples: each event is one of them, drawn by its random bytes.

    With keys of their own the entity of an event is the number of its key, in the order in which
    the keys appear in the file.
    """

    def __init__(self, partitions: PartitionPlan, samples: Samples, *, run_id: str) -> None:
        """Send ``samples`` as messages of the run."""
        super().__init__(partitions)
        self._samples, self._run_id = samples, run_id
        numbers: dict[bytes, int] = {}
        keys = samples.keys or ()
        self._entities = np.array([numbers.setdefault(k, len(numbers)) for k in keys], np.uint64)
        self._key_places = [partition_of_key(key, partitions.first) for key in keys]

    def of(self, events: EventBlock) -> Bodies:
        """Return the samples that are sent for ``events``."""
        random = events["payload"].view((np.uint8, PAYLOAD_BYTES))[:, :_DRAW_BYTES]
        drawn = np.ascontiguousarray(random).view("<u8")[:, 0] % np.uint64(
            len(self._samples.values)
        )
        chosen = drawn.tolist()
        values = [self._samples.values[number] for number in chosen]
        if self._samples.keys is None:
            keys, places = record_keys(events), self._places(events)
        else:
            events["entity_id"] = self._entities[drawn]
            keys = [self._samples.keys[number] for number in chosen]
            places = [self._key_places[number] for number in chosen]
        return Bodies(events, values, keys, places, identity_headers(events, self._run_id))
