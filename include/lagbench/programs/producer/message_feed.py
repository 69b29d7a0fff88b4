"""Make the messages of a block: lagbench's own events, or a user's samples."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Full, Queue
from typing import Self

import numpy as np
import numpy.typing as npt

from lagbench.core.scenario.event_stream import (
    EventBlock,
    EventStream,
    StreamDigest,
    partition_of_key,
    planned_partitions,
)
from lagbench.core.scenario.payload import Samples
from lagbench.core.scenario.scenario import PartitionPlan
from lagbench.errors import LagbenchError
from lagbench.shared_with_spark.event import (
    PAYLOAD_BYTES,
    Headers,
    event_values,
    identity_headers,
    record_keys,
)

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


# 8 blocks of 8192 are 1.1 s at 60,000/s, and about 35 MB.
_BLOCKS_AHEAD = 8
_WAIT_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class ReadyBlock:
    """One block as the client wants it; ``digest`` covers the planned window up to this block."""

    bodies: Bodies
    planned_ns: npt.NDArray[np.int64]
    digest: StreamDigest


class GenerationFailed(LagbenchError):
    """The thread that makes the events ended with an error."""


class BlockFeed:
    """Iterates over the blocks of a stream while a thread makes the next ones."""

    def __init__(
        self, stream: EventStream, *, blocks: int, bodies: MessageBodies, digested_events: int
    ) -> None:
        """Prepare the thread; ``with`` starts it. ``digested_events``: without the tail's."""
        self._stream, self._blocks, self._bodies = stream, blocks, bodies
        self._digested_events = digested_events
        self._ready: Queue[ReadyBlock | Exception] = Queue(maxsize=_BLOCKS_AHEAD)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._make, name="event-blocks", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def blocks(self) -> Iterator[ReadyBlock]:
        """Yield the blocks in order; waits when the thread has not made one yet."""
        for _ in range(self._blocks):
            block = self._ready.get()
            if isinstance(block, Exception):
                raise GenerationFailed(f"the event stream could not be made: {block}") from block
            yield block

    def _make(self) -> None:
        digest = StreamDigest(seq_to=self._digested_events)
        try:
            for index in range(self._blocks):
                bodies = self._bodies.of(self._stream.block(index))
                planned = np.ascontiguousarray(bodies.events["planned_offset_ns"])
                block = ReadyBlock(bodies, planned, digest.copy())
                digest.add(bodies.events)
                if not self._hand_over(block):
                    return
        except Exception as error:
            self._hand_over(error)

    def _hand_over(self, item: ReadyBlock | Exception) -> bool:
        while not self._stopping.is_set():
            try:
                self._ready.put(item, timeout=_WAIT_SECONDS)
            except Full:
                continue
            return True
        return False
