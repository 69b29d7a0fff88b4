"""All partitions in this pod's hands, shared by the poll thread and the worker thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lagbench.programs.consumer.write_schedule import Instants, WriteSlots
from lagbench.shared_with_spark.event import Events

Attempts = npt.NDArray[np.uint8]


@dataclass(slots=True)
class RecordChunk:
    """Consecutive records of one partition from one fetch."""

    offsets: npt.NDArray[np.int64]
    events: Events
    arrived_at: int
    costs_ns: Instants | None = None
    """CPU time and wait of each record; None: all cost the same."""
    failed_attempts: Attempts | None = None
    """After how many attempts each record is given up; 0: it is processed. None: all are."""

    def __len__(self) -> int:
        """Count the records."""
        return len(self.offsets)

    def part(self, first: int, end: int | None = None) -> RecordChunk:
        """Return the records from place ``first`` to ``end``."""
        costs, failed = self.costs_ns, self.failed_attempts
        return RecordChunk(
            self.offsets[first:end],
            self.events[first:end],
            self.arrived_at,
            costs_ns=None if costs is None else costs[first:end],
            failed_attempts=None if failed is None else failed[first:end],
        )


@dataclass(frozen=True, slots=True)
class Writes:
    """Records of one partition whose writes have begun, with each write's start and end."""

    work: PartitionWork
    offsets: npt.NDArray[np.int64]
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
        fresh = chunk.part(int(np.searchsorted(chunk.offsets, self.next_fetch_offset)))
        if len(fresh):
            self.next_fetch_offset = int(fresh.offsets[-1]) + 1
            self.chunks.append(fresh)
            self.queued += len(fresh)
        return len(fresh)

    def begin(self, count: int, slots: WriteSlots, *, horizon_at: int, now: int) -> Writes:
        """Take up to ``count`` records off the first chunk; they are in flight now.

        Records that all cost the same begin whatever the horizon: there was room for them.
        """
        taken = self.chunks[0].part(0, count)
        if taken.costs_ns is None:
            started_at, done_at = slots.plan(len(taken), taken.arrived_at, now)
        else:
            costs, arrived_at = taken.costs_ns, taken.arrived_at
            started_at, done_at = slots.plan_each(costs, horizon_at, arrived_at, now)
            taken = taken.part(0, len(started_at))
        rest = self.chunks.popleft().part(len(taken))
        if len(rest):
            self.chunks.appendleft(rest)
        self.queued -= len(taken)
        self.in_flight += len(taken)
        failed = taken.failed_attempts
        failed = None if failed is None or not failed.any() else failed
        return Writes(self, taken.offsets, taken.events, started_at, done_at, failed)

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

    def drop_queued(self) -> None:
        """Forget records whose writes have not begun."""
        self.queued = 0
        self.chunks.clear()


class WorkCounts(NamedTuple):
    """Numbers of records that wait, and that are being worked on."""

    queued: int
    in_flight: int


class WorkQueues:
    """Hands records from the poll thread to the worker, partition by partition, in turn.

    One lock guards every PartitionWork; ``changed`` notifies the worker of new work and the poll
    thread of settled partitions.
    """

    def __init__(self, concurrency: int, on_acknowledged: Callable[[int, int], None]) -> None:
        """Start empty; ``on_acknowledged(partition, offset)`` is called for ledger records."""
        self._concurrency = concurrency
        self._on_acknowledged = on_acknowledged
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._owned: dict[int, PartitionWork] = {}
        self._leaving: list[PartitionWork] = []  # no longer owned, not yet settled
        self._turns: deque[PartitionWork] = deque()  # those with queued records, in turn
        self._is_waiting_idle = False
        self._is_woken = False
        self.processed_total = 0

    # --- poll thread ------------------------------------------------------------------------

    def own(self, partitions: Iterable[int], member_id: str) -> None:
        """Hold ``partitions`` from now on."""
        with self._lock:
            for partition in partitions:
                self._owned[partition] = PartitionWork(partition, member_id)

    def owned(self) -> list[PartitionWork]:
        """Return what is held, by partition number."""
        with self._lock:
            return [self._owned[number] for number in sorted(self._owned)]

    def offer(self, partition: int, chunk: RecordChunk) -> PartitionWork | None:
        """Queue a chunk; None when the partition is not held (any longer)."""
        with self._lock:
            work = self._owned.get(partition)
            if work is None or work.is_closing:
                return None
            was_empty = work.queued == 0
            if work.offer(chunk) and was_empty:
                self._turns.append(work)
            if self._is_waiting_idle:
                self.wake()
            return work

    def close(
        self, partitions: Iterable[int], *, drops_queued: bool
    ) -> tuple[list[PartitionWork], int]:
        """Stop taking records for ``partitions`` and hurry what has begun to the ledger."""
        with self._lock:
            closing = [self._owned[number] for number in partitions if number in self._owned]
            held = sum(work.queued + work.in_flight for work in closing)
            for work in closing:
                work.is_closing = True
                if drops_queued:
                    work.drop_queued()
            self._turns = deque(work for work in self._turns if work.queued)
            self.wake()
            return closing, held

    def wait_settled(self, works: Iterable[PartitionWork], timeout_seconds: float) -> bool:
        """Wait until all that was begun (or queued) of ``works`` is acknowledged."""
        watched = list(works)
        with self._changed:
            return self._changed.wait_for(
                lambda: all(work.unsettled + work.queued == 0 for work in watched), timeout_seconds
            )

    def disown(self, works: Iterable[PartitionWork]) -> None:
        """Hold ``works`` no longer."""
        with self._lock:
            for work in works:
                work.drop_queued()
                work.is_closing = work.is_given_up = True
                self._owned.pop(work.partition, None)
                if work.unsettled:
                    self._leaving.append(work)
            self._turns = deque(work for work in self._turns if work.queued)

    def counts(self) -> WorkCounts:
        """Return the totals over what is held."""
        with self._lock:
            works = self._owned.values()
            begun = sum(work.in_flight for work in works)
            in_flight = min(begun, self._concurrency)  # the rest is planned a turn ahead
            return WorkCounts(sum(work.queued for work in works) + begun - in_flight, in_flight)

    # --- worker thread ----------------------------------------------------------------------

    def begin_writes(
        self, slots: WriteSlots, horizon_at: int, now: int, *, most: int | None = None
    ) -> list[Writes]:
        """Begin the writes that start before ``horizon_at``, partitions in turn, at most ``most``.

        Without a limit they are as many as the slots take.
        """
        begun: list[Writes] = []
        share = total = 0
        with self._lock:
            for _ in range(2 * len(self._turns)):
                if not self._turns:
                    break
                work = self._turns[0]
                room = slots.room_until(horizon_at, work.chunks[0].arrived_at, now)
                room = room if most is None else min(room, most - total)
                if room == 0:
                    break
                share = share or max(1, -(-room // len(self._turns)))
                writes = work.begin(min(share, room), slots, horizon_at=horizon_at, now=now)
                begun.append(writes)
                total += len(writes)
                self._turns.popleft()
                if work.queued:
                    self._turns.append(work)
        return begun

    def finish(self, writes: Writes) -> None:
        """Count ``writes`` as done."""
        with self._lock:
            writes.work.finish(writes)
            self.processed_total += len(writes)

    def due_batches(self, is_due: Callable[[PartitionWork], bool]) -> list[list[Writes]]:
        """Take the batches that should go to the ledger now."""
        with self._lock:
            works = [*self._owned.values(), *self._leaving]
            return [work.send_off() for work in works if work.done_count and is_due(work)]

    def acknowledge(self, work: PartitionWork, count: int, last_offset: int) -> None:
        """Note that the ledger holds ``work`` up to ``last_offset``."""
        with self._lock:
            work.acknowledge(count, last_offset)
            self._note_settled(work)
        self._on_acknowledged(work.partition, last_offset)

    def abandon(self, work: PartitionWork, count: int) -> None:
        """Note that the ledger will never hold ``count`` records of ``work``, which is given up."""
        with self._lock:
            work.unacknowledged -= count
            self._note_settled(work)

    def has_queued(self) -> bool:
        """Return whether any record waits for its write."""
        return bool(self._turns)

    def is_unsettled(self) -> bool:
        """Return whether a done or sent record is still unacknowledged."""
        with self._lock:
            works = [*self._owned.values(), *self._leaving]
            return any(work.done_count or work.unacknowledged for work in works)

    def is_hurried(self) -> bool:
        """Return whether the poll thread waits for a closing partition's acknowledgements."""
        with self._lock:
            return any(work.is_closing and work.unacknowledged for work in self._owned.values())

    def wait_for_work(self, timeout_seconds: float, *, is_idle: bool) -> None:
        """Sleep; new records wake an idle worker, a closing partition wakes any."""
        with self._changed:
            if not self._is_woken and not (is_idle and self._turns):
                self._is_waiting_idle = is_idle
                self._changed.wait_for(lambda: self._is_woken, timeout_seconds)
                self._is_waiting_idle = False
            self._is_woken = False

    def wake(self) -> None:
        """Make the worker turn at once, also one that is not asleep yet."""
        with self._lock:
            self._is_woken = True
            self._changed.notify_all()

    def _note_settled(self, work: PartitionWork) -> None:
        if work.unsettled == 0 and work in self._leaving:
            self._leaving.remove(work)
        self._changed.notify_all()
