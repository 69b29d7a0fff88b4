"""The worker thread: begins writes, takes their ends, sends batches to the ledger."""

from __future__ import annotations

import hashlib
import heapq
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lagbench.core.scenario.cost_draws import process_ns
from lagbench.core.scenario.event_stream import is_poisoned
from lagbench.core.scenario.message_costs import PoisonedKey, ProcessCost
from lagbench.errors import NotReady
from lagbench.programs.consumer.consumer_settings import WorkOptions
from lagbench.programs.consumer.ledger import LedgerWriter
from lagbench.programs.consumer.work_queues import (
    Attempts,
    PartitionWork,
    RecordChunk,
    WorkQueues,
    Writes,
)
from lagbench.programs.consumer.write_schedule import Instants, WriteSlots
from lagbench.shared_with_spark.event import Events
from pod_program.steady_clock import SteadyClock

log = logging.getLogger(__name__)
TURN_NS = 20_000_000
"""Writes are begun this far ahead: 50 wake-ups a second instead of one per record.

A wake-up costs 0.3 ms of a busy core, so 24 pods at 10 ms would cost 0.7 of a core; a partition
that is given up waits at most this much longer for its last writes.
"""

_SHORTEST_SLEEP_NS = 10_000_000
_IDLE_SLEEP_NS = 1_000_000_000
_ACKNOWLEDGEMENT_SLEEP_NS = 20_000_000
_LAST_TURN_SECONDS = 3.0
_LAST_FLUSH_SECONDS = 5.0
BATCH_RECORDS = 1000
BATCH_AGE_NS = 150_000_000


class Worker(threading.Thread):
    """Runs until ``stop``; a failure ends it and stays in ``failure`` for the poll thread."""

    def __init__(
        self,
        queues: WorkQueues,
        slots: WriteSlots,
        ledger: LedgerWriter,
        clock: SteadyClock,
        *,
        cpu_ns: int = 0,
    ) -> None:
        """Take the work from ``queues`` at the pace of ``slots``; writes begin by ``clock``.

        Each message burns ``cpu_ns`` of this thread's CPU time first.
        """
        super().__init__(name="worker", daemon=True)
        self._queues = queues
        self._slots = slots
        self._ledger = ledger
        self._now = clock.now_ns
        self._burner = CpuBurner(cpu_ns, clock.now_ns)
        self._most = max(1, TURN_NS // cpu_ns) if cpu_ns else None
        # A heap by end; the number keeps the order of equal ends. A partition's ends ascend.
        self._in_flight: list[tuple[int, int, Writes]] = []
        self._begun = 0
        self._stopping = threading.Event()
        self._is_first_batch = True
        self.failure: Exception | None = None
        self._turned_at = time.monotonic()

    def run(self) -> None:
        """Turn until stopped."""
        try:
            while not self._stopping.is_set():
                self._turned_at = time.monotonic()
                sleep_ns = self._turn(self._now())
                is_idle = not self._queues.has_queued()
                self._queues.wait_for_work(sleep_ns / 1e9, is_idle=is_idle)
        except Exception as error:
            log.exception("the worker failed")
            self.failure = error

    def require_turning(self, within_seconds: float) -> None:
        """End a pod whose client does not come back from a transaction's request.

        librdkafka keeps no time limit in ``send_offsets_to_transaction`` (its issue 5456): an
        outage of the broker of 12 s can block the thread permanently. Started again, the pod
        registers again and repeats nothing.
        """
        silent_seconds = time.monotonic() - self._turned_at
        if silent_seconds > within_seconds:
            raise NotReady(f"a transaction's request has not returned for {silent_seconds:.0f} s")

    def stop(self, *, sends_done: bool) -> None:
        """End the thread; with ``sends_done`` what is done goes to the ledger first."""
        self._stopping.set()
        self._queues.wake()
        self.join(_LAST_TURN_SECONDS)
        if not sends_done or self.failure is not None:
            return
        if not self.is_alive():  # else the broker is away, and what is done is the thread's
            self._finish_ended(self._now())
            self._send(self._queues.due_batches(lambda _work: True))
        self._ledger.flush(_LAST_FLUSH_SECONDS)

    def _turn(self, now: int) -> int:
        self._finish_ended(now)
        self._begin(now)
        now = self._now()
        self._finish_ended(now)  # free, or caught up
        self._send(self._queues.due_batches(lambda work: self._is_due(work, now)))
        self._ledger.serve(is_hurried=self._queues.is_hurried())
        return self._sleep_ns(now)

    def _begin(self, now: int) -> None:
        """Begin the writes of one turn, with their CPU work."""
        horizon_at = now + TURN_NS
        late_ns = 0
        for planned in self._queues.begin_writes(self._slots, horizon_at, now, most=self._most):
            writes = planned
            if self._burner.cpu_ns:
                writes, late_ns = self._burner.work_on(planned, late_ns)
            self._slots.hold(writes.done_at)
            work = writes.work
            work.busy_until = max(work.busy_until, writes.all_done_at)
            heapq.heappush(self._in_flight, (work.busy_until, self._begun, writes))
            self._begun += 1
        if late_ns:
            self._slots.delay(late_ns)

    def _finish_ended(self, now: int) -> None:
        self._slots.end(now)
        while self._in_flight and self._in_flight[0][0] <= now:
            self._queues.finish(heapq.heappop(self._in_flight)[2])

    def _is_due(self, work: PartitionWork, now: int) -> bool:
        if work.is_closing and work.in_flight + work.queued == 0:
            return True
        is_old = now - work.oldest_done_at >= BATCH_AGE_NS
        return self._is_first_batch or is_old or work.done_count >= BATCH_RECORDS

    def _send(self, batches: list[list[Writes]]) -> None:
        for batch in batches:
            self._ledger.send(batch)
            self._is_first_batch = False

    def _sleep_ns(self, now: int) -> int:
        instants = []
        if self._queues.has_queued():
            instants.append(max(self._slots.next_start_at, now))
        if self._in_flight:
            instants.append(max(self._in_flight[0][0], now + _SHORTEST_SLEEP_NS))
        if (ends_at := self._slots.next_end_at) is not None:
            instants.append(ends_at)
        if self._queues.is_unsettled():
            instants.append(now + _ACKNOWLEDGEMENT_SLEEP_NS)
        until = min(instants, default=now + _IDLE_SLEEP_NS)
        return max(until - self._now(), 0)


_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class MessageCosts:
    """The costs of messages in nanoseconds; ``distribution`` None: all wait equally long."""

    mean_ns: int
    """CPU time and wait of a message on average."""
    cpu_ns: int
    distribution: ProcessCost | None
    seed: int
    """Draws the costs of a distribution."""
    poison: PoisonedKey | None

    @classmethod
    def of(cls, options: WorkOptions) -> MessageCosts:
        """Return the costs that a pod's options state."""
        cost = options.process_ms
        return cls(
            mean_ns=round(options.message_ms * _NS_PER_MS),
            cpu_ns=round(options.cpu_ms * _NS_PER_MS),
            distribution=None if isinstance(cost, int | float) else cost,
            seed=options.work_seed,
            poison=options.poison,
        )

    def draw(self, chunks: Sequence[RecordChunk]) -> None:
        """Give each record of the chunks its cost, and its failure, in one draw for all."""
        if not chunks or (self.distribution is None and self.poison is None):
            return
        events = np.concatenate([chunk.events for chunk in chunks])
        costs, failed = self._costs(events)
        borders = np.add.accumulate([len(chunk.offsets) for chunk in chunks])[:-1]
        if costs is not None:
            for chunk, drawn in zip(chunks, np.split(costs, borders), strict=True):
                chunk.costs_ns = drawn
        if failed is not None:
            for chunk, given_up in zip(chunks, np.split(failed, borders), strict=True):
                chunk.failed_attempts = given_up

    def _costs(self, events: Events) -> tuple[Instants | None, Attempts | None]:
        """Return the costs and the failed attempts of the events; None: nothing special."""
        costs: Instants | None = None
        if self.distribution is not None:
            costs = process_ns(self.distribution, events, seed=self.seed) + self.cpu_ns
        if self.poison is None:
            return costs, None
        poisoned = is_poisoned(self.poison, events)
        if not poisoned.any():
            return costs, None
        if costs is None:
            costs = np.full(len(events), self.mean_ns, dtype=np.int64)
        if self.poison.effect == "hang":
            return costs + poisoned * self.poison.hang_ns, None
        failed = (poisoned * self.poison.attempts).astype(np.uint8)
        return costs * np.maximum(failed, 1), failed


_BLOCK = bytes(8192)


def digest() -> None:
    """Burn 5 to 30 µs."""
    hashlib.sha256(_BLOCK).digest()


class CpuBurner:
    """Burns what each message costs; what one call burns too much, the next one burns less."""

    def __init__(
        self,
        cpu_ns: int,
        now: Callable[[], int],
        *,
        cpu_clock: Callable[[], int] = time.thread_time_ns,
        burn: Callable[[], None] = digest,
    ) -> None:
        """Burn ``cpu_ns`` for each message; ``now`` stamps the ends, ``cpu_clock`` measures."""
        self.cpu_ns = cpu_ns
        self._now = now
        self._cpu_clock, self._burn = cpu_clock, burn
        self._ahead_ns = 0

    def work_on(self, writes: Writes, late_ns: int) -> tuple[Writes, int]:
        """Burn for all records; return them and how late in ns the last of them became.

        Their instants were planned for a pod with a free core. A record whose CPU work ended later
        than planned is late by that, and so are those after it; ``late_ns`` is how late those
        before it were.
        """
        began_at = self._now()
        self._spend(writes.attempts * self.cpu_ns)
        took_ns = self._now() - began_at
        share = np.arange(1, len(writes) + 1) / len(writes)
        burned_at = began_at + np.rint(share * took_ns).astype(np.int64)
        late = np.maximum.accumulate(
            np.maximum(burned_at - self.cpu_ns - writes.started_at, late_ns)
        )
        delayed = replace(
            writes, started_at=writes.started_at + late, done_at=writes.done_at + late
        )
        return delayed, int(late[-1])

    def _spend(self, cpu_ns: int) -> None:
        until = self._cpu_clock() + cpu_ns - self._ahead_ns
        while (at := self._cpu_clock()) < until:
            self._burn()
        self._ahead_ns = at - until
