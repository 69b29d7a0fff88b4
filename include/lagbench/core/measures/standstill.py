"""Measure the standstill: the longest time in which nothing was done although work waited.

* The group stands still from the last bin with work to the next one, while a message waited in
  every bin between. A partition is measured likewise, by its own messages. Every cause counts: a
  scale step, a dead pod, a partition without an owner or owned by a stranger, a session timeout.
* Work in flight is work: the cost of one message is subtracted, because the next message begins
  when the last one is done.
* A policy that scales to zero may stand still while no replica is desired; the wait from there to
  the first assignment belongs to the reaction.
* The group is judged by the table ``timeline``. An instant is known to its bin, so with k empty
  bins the time between the two neighbours is k to k + 2 bins. The start of the first message's wait
  is known to the time that the message is on its way (``PRECISION_BINS`` in total).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lagbench.core.measures.evidence.group_events import GroupEvent, GroupState
from lagbench.core.measures.evidence.lag_readings import BIN_NS, RateSeries
from lagbench.core.measures.model import NANOSECONDS, Interval, Ints, MeasureModel
from lagbench.core.measures.partition_work import PartitionWork, group_waiting
from lagbench.core.measures.rate_dip import IN_FLIGHT_BINS
from lagbench.core.measures.replica_steps import ReplicaChange
from lagbench.core.telemetry.records_of_recorder import ReplicaSample

BIN_SECONDS = BIN_NS / NANOSECONDS
COSTS_PER_LIMIT = 3
HELD_BINS = 50
"""A shorter standstill of a partition, up to 5 s, is the dip of a step."""
PRECISION_BINS = 2 + IN_FLIGHT_BINS + 1


class Standstill(MeasureModel):
    """The longest time without work done although work waited."""

    group_seconds: float | None = None  # None: no data on the group's work
    group_low_seconds: float | None = None
    group_high_seconds: float | None = None
    group_started_at: int | None = None
    partition: int | None = None  # with the longest standstill; None: not known
    partition_seconds: float | None = None
    partition_started_at: int | None = None
    message_seconds: float  # cost of one message: work in flight is work
    reason: str  # why a part was not measured; empty when all was

    @property
    def group_interval(self) -> Interval | None:
        """Return the bounds of ``group_seconds``; None: not measured."""
        low, high = self.group_low_seconds, self.group_high_seconds
        return None if low is None or high is None else (low, high)


def standstill(
    rate: RateSeries,
    work: PartitionWork,
    *,
    from_at: int,
    until_at: int,
    message_seconds: float,
    asleep: Sequence[tuple[int, int]] = (),
) -> Standstill:
    """Return the longest standstills of the group and of a partition in [from_at, until_at).

    ``asleep``: periods of unix ns in which no replica was due.
    """
    first, last = rate.bin_of(from_at), rate.bin_of(until_at)
    if first >= last:
        reason = "there is no sample of the group's rate"
        return Standstill(message_seconds=message_seconds, reason=reason)
    counted = np.ones(last - first, dtype=bool)
    for start, end in asleep:
        counted[max(rate.bin_of(start) - first, 0) : max(rate.bin_of(end) - first + 1, 0)] = False
    waits = group_waiting(rate, work.lost, work.backlog)[first:last] > 0
    group = _longest((rate.processed[first:last] == 0) & waits & counted)
    partition, worst = None, None
    for number, done in enumerate(work.done if work.done is not None else ()):
        stands = (done[first:last] == 0) & (work.waiting[number, first:last] > 0) & counted
        run = _longest(stands)
        if worst is None or run[1] > worst[1]:
            partition, worst = number, run
    low = max(0.0, group[1] * BIN_SECONDS - message_seconds)
    return Standstill(
        group_seconds=low,
        group_low_seconds=low,
        group_high_seconds=low if low == 0 else low + PRECISION_BINS * BIN_SECONDS,
        group_started_at=rate.at_bin(first + group[0]) if low else None,
        partition=partition,
        partition_seconds=None
        if worst is None
        else max(0.0, worst[1] * BIN_SECONDS - message_seconds),
        partition_started_at=None if worst is None else rate.at_bin(first + worst[0]),
        message_seconds=message_seconds,
        reason=work.note if worst is None else "",
    )


def held_records(rate: RateSeries, work: PartitionWork, from_at: int, until_at: int) -> int | None:
    """Return the messages that came to a partition while it stood still, in [from_at, until_at).

    None: the work is not known by partition.
    """
    if work.done is None:
        return None
    first, last = rate.bin_of(from_at), rate.bin_of(until_at)
    held = 0
    for number, done in enumerate(work.done):
        stands = (done[first:last] == 0) & (work.waiting[number, first:last] > 0)
        for start, end in zip(*_runs(stands), strict=True):
            if end - start > HELD_BINS:
                held += int(work.arrivals[number, first + start : first + end].sum())
    return held


def asleep_periods(
    events: Sequence[GroupEvent],
    samples: Sequence[ReplicaSample],
    changes: Sequence[ReplicaChange],
    until_at: int,
) -> list[tuple[int, int]]:
    """Return the periods in which a policy that scales to zero had no member on purpose.

    Each begins when the last member had left and ends with the first assignment.
    """
    state = GroupState()
    found: list[tuple[int, int]] = []
    empty_at: int | None = 0  # before its first member the group was empty, too
    for event in events:
        state.apply(event)
        if not state.members and empty_at is None:
            empty_at = event.at
        elif empty_at is not None and state.owner:
            found.append((empty_at, event.at))
            empty_at = None
    if empty_at is not None:
        found.append((empty_at, until_at))
    zero = [sample.at for sample in samples if sample.spec == 0]
    zero += [change.at for change in changes if change.replicas_after == 0]
    slack = 2 * NANOSECONDS  # zero is desired before the last member has left
    return [(start, end) for start, end in found if any(start - slack <= at <= end for at in zero)]


def _runs(stands: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Return the starts and the ends of all runs of true."""
    edges = np.diff(np.concatenate([[0], stands.astype(np.int8), [0]]))
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)


def _longest(stands: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Return start and length of the longest run of true."""
    starts, ends = _runs(stands)
    if not starts.size:
        return 0, 0
    longest = int(np.argmax(ends - starts))
    return int(starts[longest]), int(ends[longest] - starts[longest])
