"""Generate the event stream: same bytes for a seed, whatever the block size or machine speed.

Draws come from a counter-based generator (Philox keyed by seed and block number, 8192 events per
block), so any period of the stream can be generated without the events before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lagbench.core.scenario.scenario import Keys
from lagbench.core.scenario.stream.key_skew import EntityOrder, ZipfRanks
from lagbench.core.scenario.stream.profile import OfferedLoad
from lagbench.shared_with_spark.event import EVENT_DTYPE, PAYLOAD_BYTES

BLOCK_EVENTS = 8192
# Half of the payload is random and half filler: lz4 then stores about half of each record, in a
# batch of one and in a batch of hundreds, as it does with records of text.
_RANDOM_WORDS = 14
_FILLER = b"."

EventBlock = npt.NDArray[np.void]


class EventStream:
    """Generate the events of one producer."""

    def __init__(self, load: OfferedLoad, keys: Keys, *, seed: int, producer_id: int = 0) -> None:
        """Bind the stream to its load, keys and seed."""
        self._load, self._seed, self._producer_id = load, seed, producer_id
        self._ranks, self._order = ZipfRanks(keys), EntityOrder(keys.entities, seed)

    def blocks(self) -> Iterator[EventBlock]:
        """Yield the whole stream in its own blocks."""
        for block in range(-(-self._load.total // BLOCK_EVENTS)):
            yield self.block(block)

    def block(self, index: int) -> EventBlock:
        """Return block ``index``: events from ``index * 8192`` on, fewer in the last block."""
        first = index * BLOCK_EVENTS
        count = max(0, min(BLOCK_EVENTS, self._load.total - first))
        key = np.array([self._seed, index], dtype=np.uint64)
        # random_raw is the generator's own definition; numpy may change what Generator derives.
        raw = np.random.Philox(key=key).random_raw(BLOCK_EVENTS * (1 + _RANDOM_WORDS))
        uniform = (raw[:BLOCK_EVENTS] >> np.uint64(11)).astype(np.float64) * 2.0**-53
        events = np.zeros(count, dtype=EVENT_DTYPE)
        events["seq"] = np.arange(first, first + count, dtype=np.uint64)
        events["entity_id"] = self._order.entity_ids(self._ranks.draw(uniform[:count]))
        events["planned_offset_ns"] = self._load.planned_times(first, first + count)
        events["producer_id"] = self._producer_id
        random_bytes = raw[BLOCK_EVENTS:].astype("<u8", copy=False).view(np.uint8)
        payload = events["payload"].view((np.uint8, PAYLOAD_BYTES))
        payload[:, : _RANDOM_WORDS * 8] = random_bytes.reshape(BLOCK_EVENTS, -1)[:count]
        payload[:, _RANDOM_WORDS * 8 :] = ord(_FILLER)
        return events

    def events(self, seq_from: int, seq_to: int) -> EventBlock:
        """Return events ``seq_from`` to ``seq_to - 1`` (the stream's end cuts them)."""
        seq_to = min(seq_to, self._load.total)
        if seq_from >= seq_to:
            return np.zeros(0, dtype=EVENT_DTYPE)
        first, last = seq_from // BLOCK_EVENTS, (seq_to - 1) // BLOCK_EVENTS
        joined = np.concatenate([self.block(index) for index in range(first, last + 1)])
        return joined[seq_from - first * BLOCK_EVENTS : seq_to - first * BLOCK_EVENTS]


class StreamDigest:
    """SHA-256 over the values of the events sent with a seq below ``seq_to``, in that order.

    The tail beyond it is as long as the run needs, so with it no two digests would be equal.
    """

    def __init__(self, *, seq_to: int) -> None:
        """Start with no event."""
        self._seq_to, self._sha256 = seq_to, hashlib.sha256()

    def add(self, events: EventBlock) -> None:
        """Add the next events."""
        if len(events):
            events = events[: max(0, self._seq_to - int(events["seq"][0]))]
        self._sha256.update(np.ascontiguousarray(events).view(np.uint8).data)

    def hexdigest(self) -> str:
        """Return the digest of everything so far."""
        return self._sha256.hexdigest()

    def copy(self) -> StreamDigest:
        """Return an independent digest of everything so far."""
        twin = StreamDigest(seq_to=self._seq_to)
        twin._sha256 = self._sha256.copy()
        return twin
