"""When the work on each message starts and ends: ``concurrency`` slots, each busy its cost.

Instants are assigned by arithmetic, not by sleeping per record: a pod that has work does exactly
``concurrency`` divided by the mean cost, in records a second, however late its thread wakes up.
Time in which nothing was queued is never made up for: a write starts no earlier than its record
came.
The schedule is kept in the downstream's own time, in which a message always costs the same.
"""

from __future__ import annotations

from heapq import heapreplace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lagbench.core.scenario.message_costs import DownstreamPace

# How far back a start may be placed when the thread woke late. Above that the process was frozen
# or starved, and a frozen process does no writes.
MAX_LATE_NS = 250_000_000
FREE_BATCH_RECORDS = 2000
"""Records that start together when a write costs nothing."""


class WriteSlots(Protocol):
    """The write slots of one pod, as its worker uses them; instants are unix nanoseconds."""

    @property
    def next_start_at(self) -> int:
        """Earliest instant at which another write can start."""

    @property
    def next_end_at(self) -> int | None:
        """When an end has to be read from the clock; None: no end has to."""

    def room_until(self, horizon_at: int, arrived_at: int, now: int) -> int:
        """Return how many writes of records that came at ``arrived_at`` can begin."""

    def plan(self, count: int, arrived_at: int, now: int) -> tuple[Instants, Instants]:
        """Return starts and ends of ``count`` writes of the same cost, for which there is room."""

    def plan_each(
        self, costs_ns: Instants, horizon_at: int, arrived_at: int, now: int
    ) -> tuple[Instants, Instants]:
        """Return starts and ends of the first writes of different costs."""

    def delay(self, late_ns: int) -> None:
        """Note that the CPU work of what was planned took longer."""

    def hold(self, done_at: Instants) -> None:
        """Take the planned ends of writes that have begun, in the array that keeps them."""

    def end(self, now: int) -> None:
        """Put the real ends into the arrays, if they are not those that were planned."""


class WriteSchedule:
    """The write slots of one pod; starts never go back in time."""

    def __init__(
        self, process_ns: int, concurrency: int, downstream: DownstreamClock | None = None
    ) -> None:
        """All slots are free; ``process_ns`` is the mean cost of a message.

        Without a ``downstream`` clock it is never slow.
        """
        self._downstream = downstream or DownstreamClock(DownstreamPace())
        self._process_ns = process_ns
        self._concurrency = concurrency
        self._free_at = np.zeros(concurrency, dtype=np.int64)  # ascending
        self._last_start_at = 0

    @property
    def next_start_at(self) -> int:
        """Earliest instant at which another write can start."""
        return self._downstream.wall_at(int(self._free_at[0]))

    @property
    def next_end_at(self) -> int | None:
        """Return nothing: each end is the one that was planned."""
        return None

    def room_until(self, horizon_at: int, arrived_at: int, now: int) -> int:
        """Return how many writes of records that came at ``arrived_at`` start before the horizon.

        Free writes all start at once, in batches that bound one turn of the thread.
        """
        if self._process_ns == 0:
            return FREE_BATCH_RECORDS
        earliest = np.maximum(self._free_at, self._floor(arrived_at, now))
        horizon = self._downstream.work_at(horizon_at)
        starts = -((earliest - horizon) // self._process_ns)
        return int(np.maximum(starts, 0).sum())

    def plan(self, count: int, arrived_at: int, now: int) -> tuple[Instants, Instants]:
        """Return starts and ends of ``count`` writes, both ascending."""
        if self._process_ns == 0:
            instants = np.full(count, now, dtype=np.int64)
            return instants, instants
        used = min(count, self._concurrency)
        first = np.maximum(self._free_at[:used], self._floor(arrived_at, now))
        turn, slot = np.divmod(np.arange(count), used)
        starts = first[slot] + turn * self._process_ns
        ends = starts + self._process_ns
        self._free_at[:used] = ends[-used:]
        self._free_at.sort()
        self._last_start_at = int(starts[-1])
        return self._downstream.wall(starts), self._downstream.wall(ends)

    def plan_each(
        self, costs_ns: Instants, horizon_at: int, arrived_at: int, now: int
    ) -> tuple[Instants, Instants]:
        """Return starts and ends of writes of different costs that start before the horizon."""
        floor, horizon = self._floor(arrived_at, now), self._downstream.work_at(horizon_at)
        if self._concurrency == 1:
            ends = np.add.accumulate(costs_ns) + max(int(self._free_at[0]), floor)
            starts = ends - costs_ns
            count = int(np.searchsorted(starts, horizon))
            starts, ends = starts[:count], ends[:count]
            self._free_at = ends[-1:].copy() if count else self._free_at
        else:
            starts, ends = self._shared_out(costs_ns.tolist(), horizon, floor)
        if len(starts):
            self._last_start_at = int(starts[-1])
        return self._downstream.wall(starts), self._downstream.wall(ends)

    def delay(self, late_ns: int) -> None:
        """Free every slot later: the CPU work of what was planned took longer."""
        self._free_at += late_ns
        self._last_start_at += late_ns

    def hold(self, done_at: Instants) -> None:
        """Do nothing, like ``end``."""

    def end(self, now: int) -> None:
        """Do nothing: each end is the one that was planned."""

    def _shared_out(
        self, costs_ns: list[int], horizon_at: int, floor: int
    ) -> tuple[Instants, Instants]:
        """Give each write the slot that is free first: one step of a heap per write."""
        free: list[int] = self._free_at.tolist()  # ascending, so a heap
        starts: list[int] = []
        ends: list[int] = []
        for cost in costs_ns:
            start = max(free[0], floor)
            if start >= horizon_at:
                break
            starts.append(start)
            ends.append(start + cost)
            heapreplace(free, start + cost)
        self._free_at = np.array(sorted(free), dtype=np.int64)
        return np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)

    def _floor(self, arrived_at: int, now: int) -> int:
        earliest = self._downstream.work_at(max(arrived_at, now - MAX_LATE_NS))
        return max(earliest, self._last_start_at)


Instants = npt.NDArray[np.int64]


class DownstreamClock:
    """Maps instants (unix nanoseconds) to the downstream's own time and back.

    The downstream's time runs at the pace of the downstream, so that every write costs the same
    in it. Both are equal until the downstream is slow for the first time.
    """

    def __init__(self, pace: DownstreamPace) -> None:
        """Begin without knowing the stream's start: nothing is slow before that is known."""
        self._pace = pace
        self._stream_started_at: int | None = None

    @property
    def needs_stream_start(self) -> bool:
        """True: the downstream is slow at some time, and the stream's start is not known."""
        return self._stream_started_at is None and not self._pace.is_even

    def stream_started(self, at: int) -> None:
        """Take the start of the stream; call it before the first write is planned."""
        self._stream_started_at = at

    def work(self, instants: Instants) -> Instants:
        """Return the downstream's time at each instant."""
        started_at = self._stream_started_at
        if started_at is None or self._pace.is_even:
            return instants
        return self._pace.work_ns(instants - started_at) + started_at

    def wall(self, works: Instants) -> Instants:
        """Return the instant of each point of the downstream's time."""
        started_at = self._stream_started_at
        if started_at is None or self._pace.is_even:
            return works
        return self._pace.wall_ns(works - started_at) + started_at

    def work_at(self, instant: int) -> int:
        """Return the downstream's time at one instant."""
        return int(self.work(np.array([instant], dtype=np.int64))[0])

    def wall_at(self, work: int) -> int:
        """Return the instant of one point of the downstream's time."""
        return int(self.wall(np.array([work], dtype=np.int64))[0])
