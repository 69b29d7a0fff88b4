"""Slots that really wait for each message: the other kind of work beside the schedule.

A write starts when the worker's thread begins it, and ends when the thread has waited for its cost
and is awake again. A thread that wakes late makes each write longer, and no later one makes up for
it. So a pod that gets no processor does less, from the first millisecond on.
"""

from __future__ import annotations

import heapq

import numpy as np

from lagbench.programs.consumer.write_schedule import DownstreamClock, Instants


class WaitedSlots:
    """The slots of one pod; each is busy until the end of its wait was read from the clock."""

    def __init__(self, process_ns: int, concurrency: int, downstream: DownstreamClock) -> None:
        """All slots are free; ``process_ns`` is the cost of a message that has none of its own."""
        self._process_ns = process_ns
        self._concurrency = concurrency
        self._downstream = downstream
        self._busy = 0
        # A heap by end: the number of its block, its place there, and the ends of the block.
        self._waits: list[tuple[int, int, int, Instants]] = []
        self._blocks = 0

    @property
    def next_start_at(self) -> int:
        """Earliest instant at which another write can start; 0: now."""
        return 0 if self._busy < self._concurrency else self._waits[0][0]

    @property
    def next_end_at(self) -> int | None:
        """When the first wait ends; None: nothing waits."""
        return self._waits[0][0] if self._waits else None

    def room_until(self, horizon_at: int, arrived_at: int, now: int) -> int:
        """Return how many slots are free; what starts later is begun later."""
        del horizon_at, arrived_at, now
        return self._concurrency - self._busy

    def plan(self, count: int, arrived_at: int, now: int) -> tuple[Instants, Instants]:
        """Return starts and ends of ``count`` writes, for which there is room."""
        return self._begun(np.full(count, self._process_ns, dtype=np.int64), arrived_at, now)

    def plan_each(
        self, costs_ns: Instants, horizon_at: int, arrived_at: int, now: int
    ) -> tuple[Instants, Instants]:
        """Return starts and ends of the first writes of different costs, one for each free slot."""
        room = self.room_until(horizon_at, arrived_at, now)
        return self._begun(costs_ns[:room], arrived_at, now)

    def delay(self, late_ns: int) -> None:
        """Do nothing: the waits that begin after late CPU work end late themselves."""

    def hold(self, done_at: Instants) -> None:
        """Wait for these ends; ``end`` writes the real ones over them."""
        for place, at in enumerate(done_at.tolist()):
            heapq.heappush(self._waits, (at, self._blocks, place, done_at))
        self._blocks += 1

    def end(self, now: int) -> None:
        """Free the slots whose wait has ended; their writes end ``now``."""
        while self._waits and self._waits[0][0] <= now:
            _, _, place, done_at = heapq.heappop(self._waits)
            done_at[place] = now
            self._busy -= 1

    def _begun(self, costs_ns: Instants, arrived_at: int, now: int) -> tuple[Instants, Instants]:
        self._busy += len(costs_ns)
        starts = np.full(len(costs_ns), max(arrived_at, now), dtype=np.int64)
        return starts, self._downstream.wall(self._downstream.work(starts) + costs_ns)
