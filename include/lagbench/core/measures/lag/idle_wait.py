"""Measure how long the first message after an idle stretch waits until it is done.

An idle stretch is a time with rate 0 in the plan, with load after it. A policy that scales to zero
has no pod then, so the message waits for the poll, the pod's start, the group and its own work. The
wait runs from its planned instant to the end of the first 0.1 s in which the group did anything;
so it is known only if nothing else was left to do. The longest of several stretches counts.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from lagbench.core.measures.evidence.series import RateSeries
from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.scenario.stream.profile import OfferedLoad


class IdleWait(MeasureModel):
    """The first message after an idle stretch."""

    idle_seconds: float  # length of the stretch, as planned
    planned_at: int  # the instant at which the message was due
    first_done_at: int | None = None
    seconds: float | None = None
    reason: str = ""  # why the wait is not known; empty when it is


def idle_wait(
    load: OfferedLoad, rate: RateSeries, *, stream_started_at: int | None, until_at: int
) -> IdleWait | None:
    """Return the longest wait after an idle stretch of ``load``; None: the load has no such one.

    If the wait of one stretch is not known, that stretch is returned.
    """
    if stream_started_at is None:
        return None
    found = [
        _after(rate, idle_seconds, seq, stream_started_at + offset_ns, until_at)
        for idle_seconds, seq, offset_ns in _returns(load)
    ]
    return max(
        found, key=lambda each: np.inf if each.seconds is None else each.seconds, default=None
    )


def _returns(load: OfferedLoad) -> list[tuple[float, int, int]]:
    """Return of each idle stretch its length, and seq and offset (ns) of the first event after."""
    found: list[tuple[float, int, int]] = []
    idle_from: float | None = None
    for part, following in pairwise(load.segments):
        if part.rate_per_second > 0:
            continue
        idle_from = part.start_seconds if idle_from is None else idle_from
        if following.rate_per_second > 0:
            at = following.start_seconds
            seq = load.planned_count(at)
            first = load.planned_times(seq, seq + 1)
            found += [(at - idle_from, seq, int(due)) for due in first]  # none at a very low rate
            idle_from = None
    return found


def _after(
    rate: RateSeries, idle_seconds: float, seq: int, planned_at: int, until_at: int
) -> IdleWait:
    first = rate.bin_of(planned_at)
    left = seq - int(rate.processed[:first].sum())
    if left > 0:
        why = f"{left:,} messages still waited when the load came back"
        return IdleWait(idle_seconds=idle_seconds, planned_at=planned_at, reason=why)
    done = np.flatnonzero(rate.processed[first : rate.bin_of(until_at)])
    if not done.size:
        why = "nothing was done after it"
        return IdleWait(idle_seconds=idle_seconds, planned_at=planned_at, reason=why)
    done_at = rate.at_bin(first + int(done[0]) + 1)
    return IdleWait(
        idle_seconds=idle_seconds,
        planned_at=planned_at,
        first_done_at=done_at,
        seconds=(done_at - planned_at) / NANOSECONDS,
    )
