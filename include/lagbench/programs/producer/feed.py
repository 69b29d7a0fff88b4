"""Blocks of the stream made ready ahead of time in a thread, so that making them delays no send."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Full, Queue
from typing import Self

import numpy as np
import numpy.typing as npt

from lagbench.core.scenario.stream.event_stream import EventStream, StreamDigest
from lagbench.errors import LagbenchError
from lagbench.programs.producer.bodies import Bodies, MessageBodies

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
