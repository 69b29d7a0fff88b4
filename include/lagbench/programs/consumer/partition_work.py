"""One partition in this pod's hands, from being assigned to being given up.

A record is queued, then in flight (its write has begun), then done (its write has ended), then
sent (its ledger record is on its way), then acknowledged: only then may its offset be committed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lagbench.programs.consumer.downstream_clock import Instants
from lagbench.shared_with_spark.event import Events

Offsets = npt.NDArray[np.int64]
Attempts = npt.NDArray[np.uint8]


@dataclass(slots=True)
class RecordChunk:
    """Consecutive records of one fetch; ``begun`` of them have left the queue."""

    offsets: Offsets
    events: Events
    arrived_at: int
    begun: int = 0
    costs_ns: Instants | None = None
    """CPU time and wait of each record; None: all cost the same."""
    failed_attempts: Attempts | None = None
    """After how many attempts each record is given up; 0: it is processed. None: all are."""

    @property
    def queued(self) -> int:
        """Records still waiting."""
        return len(self.offsets) - self.begun


@dataclass(frozen=True, slots=True)
class Writes:
    """Records of one partition whose writes have begun, with each write's start and end."""

    work: PartitionWork
    offsets: Offsets
    events: Events
    started_at: Instants
    done_at: Instants
    failed_attempts: Attempts | None = None  # as in RecordChunk

    def __len__(self) -> int:
        """Count the records."""
        return len(self.offsets)

    @property
    def attempts(self) -> int:
        """Count how often work on a record was begun."""
        if self.failed_attempts is None:
            return len(self)
        return int(np.maximum(self.failed_attempts, 1).sum())

    @property
    def all_done_at(self) -> int:
        """End of the write that ends last."""
        return int(self.done_at.max())


@dataclass(slots=True, eq=False)
class PartitionWork:
    """The work of this pod on one partition during one assignment.

    A partition that comes back later gets a new object, so late acknowledgements of the earlier
    assignment cannot move its offsets.
    """

    partition: int
    member_id: str
    chunks: deque[RecordChunk] = field(default_factory=deque)
    queued: int = 0
    in_flight: int = 0
    done: list[Writes] = field(default_factory=list)
    done_count: int = 0
    unacknowledged: int = 0
    next_fetch_offset: int = -1  # nothing below is queued a second time
    committable: int | None = None  # next offset to read once all before is acknowledged
    committed: int | None = None
    busy_until: int = 0
    """When all records that have begun are done; earlier ones wait for nothing after them."""
    is_paused: bool = False
    is_closing: bool = False
    """Given up soon: what is done goes to the ledger at once."""
    is_given_up: bool = False
    """Another member may have it: nothing of it may be committed any more."""

    @property
    def unsettled(self) -> int:
        """Records begun whose offset may not be committed yet."""
        return self.in_flight + self.done_count + self.unacknowledged

    @property
    def oldest_done_at(self) -> int:
        """End of the first write that no ledger record holds; only with ``done_count`` > 0."""
        return int(self.done[0].done_at[0])

    def offer(self, chunk: RecordChunk) -> int:
        """Queue the records not seen before; returns how many."""
        fresh = chunk
        if int(chunk.offsets[0]) < self.next_fetch_offset:
            first = int(np.searchsorted(chunk.offsets, self.next_fetch_offset))
            costs, failed = chunk.costs_ns, chunk.failed_attempts
            fresh = RecordChunk(
                chunk.offsets[first:],
                chunk.events[first:],
                chunk.arrived_at,
                costs_ns=None if costs is None else costs[first:],
                failed_attempts=None if failed is None else failed[first:],
            )
        if fresh.queued == 0:
            return 0
        self.next_fetch_offset = int(fresh.offsets[-1]) + 1
        self.chunks.append(fresh)
        self.queued += fresh.queued
        return fresh.queued

    def next_costs(self, count: int) -> Instants | None:
        """Return the costs of the next ``count`` records of the first chunk."""
        chunk = self.chunks[0]
        return None if chunk.costs_ns is None else chunk.costs_ns[chunk.begun :][:count]

    def next_failures(self, count: int) -> Attempts | None:
        """Return the failed attempts of the next ``count`` records; None: none of them fails."""
        chunk = self.chunks[0]
        if chunk.failed_attempts is None:
            return None
        failed = chunk.failed_attempts[chunk.begun :][:count]
        return failed if failed.any() else None

    def begin(self, count: int) -> tuple[Offsets, Events]:
        """Take ``count`` records off the first chunk; they are in flight now."""
        chunk = self.chunks[0]
        taken = slice(chunk.begun, chunk.begun + count)
        chunk.begun += count
        if chunk.queued == 0:
            self.chunks.popleft()
        self.queued -= count
        self.in_flight += count
        return chunk.offsets[taken], chunk.events[taken]

    def finish(self, writes: Writes) -> None:
        """Take ``writes`` from in flight to done."""
        self.in_flight -= len(writes)
        self.done.append(writes)
        self.done_count += len(writes)

    def send_off(self) -> list[Writes]:
        """Hand over what is done; it is unacknowledged from now on."""
        batch, self.done = self.done, []
        self.unacknowledged += self.done_count
        self.done_count = 0
        return batch

    def acknowledge(self, count: int, last_offset: int) -> None:
        """Make everything up to ``last_offset`` committable; acknowledgements come in order."""
        self.unacknowledged -= count
        self.committable = last_offset + 1

    def abandon(self, count: int) -> None:
        """Forget ``count`` records that were sent and never will be acknowledged."""
        self.unacknowledged -= count

    def drop_queued(self) -> int:
        """Forget records whose writes have not begun; returns how many."""
        dropped, self.queued = self.queued, 0
        self.chunks.clear()
        return dropped
