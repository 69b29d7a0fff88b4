"""The worker thread: begins writes, takes their ends, sends batches to the ledger."""

from __future__ import annotations

import heapq
import logging
import threading
import time

from lagbench.errors import NotReady
from lagbench.programs.consumer.cpu_burn import CpuBurner
from lagbench.programs.consumer.ledger import LedgerWriter
from lagbench.programs.consumer.partition_work import PartitionWork, Writes
from lagbench.programs.consumer.work_queues import WorkQueues
from lagbench.programs.consumer.write_schedule import WriteSchedule
from lagbench.programs.steady_clock import SteadyClock

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
        schedule: WriteSchedule,
        ledger: LedgerWriter,
        clock: SteadyClock,
        *,
        cpu_ns: int = 0,
    ) -> None:
        """Take the work from ``queues`` at the pace of ``schedule``; writes begin by ``clock``.

        Each message burns ``cpu_ns`` of this thread's CPU time first.
        """
        super().__init__(name="worker", daemon=True)
        self._queues = queues
        self._schedule = schedule
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
        for planned in self._queues.begin_writes(self._schedule, horizon_at, now, most=self._most):
            writes = planned
            if self._burner.cpu_ns:
                writes, late_ns = self._burner.work_on(planned, late_ns)
            work = writes.work
            work.busy_until = max(work.busy_until, writes.all_done_at)
            heapq.heappush(self._in_flight, (work.busy_until, self._begun, writes))
            self._begun += 1
        if late_ns:
            self._schedule.delay(late_ns)

    def _finish_ended(self, now: int) -> None:
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
            instants.append(max(self._schedule.next_start_at, now))
        if self._in_flight:
            instants.append(max(self._in_flight[0][0], now + _SHORTEST_SLEEP_NS))
        if self._queues.is_unsettled():
            instants.append(now + _ACKNOWLEDGEMENT_SLEEP_NS)
        until = min(instants, default=now + _IDLE_SLEEP_NS)
        return max(until - self._now(), 0)
