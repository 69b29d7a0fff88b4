"""Find the spikes of an offered load: periods above the capacity of replicas at the floor.

A step or bursty profile marks its own, and so does a trace with a column ``spike``. In any other
trace a rule finds them: periods above the capacity of the floor's pods, at least one sync of the
HPA long; two such periods with a shorter gap between them are one. A steady load has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from lagbench.core.kubernetes.control_loops import HPA_SYNC_SECONDS
from lagbench.core.scenario.stream.profile import OfferedLoad, Segment


@dataclass(frozen=True, slots=True)
class Spike:
    """A period of the stream, in seconds after its start; rates in messages per second."""

    start_seconds: float
    end_seconds: float
    rate_before: float  # 0 at the start of the stream
    rate_peak: float


def load_spikes(
    load: OfferedLoad,
    *,
    started_replicas: int,
    pod_rate: float | None,
    sync_seconds: float = HPA_SYNC_SECONDS,
) -> tuple[Spike, ...]:
    """Return the spikes of ``load`` in order of time.

    ``started_replicas`` is the policy's floor with load, and ``pod_rate`` what one pod does in
    messages per second; None: it has no limit. Only a load that marks no spike needs them.
    """
    if load.marks_spikes:
        marked = ((start, end) for start, end, part in _parts(load) if part.is_spike)
        return tuple(_spike(load, *period) for period in _joined(marked, 0.0))
    floor = started_replicas * (pod_rate or math.inf)
    above = ((start, end) for start, end, part in _parts(load) if part.rate_per_second > floor)
    periods = _joined(above, sync_seconds)
    return tuple(_spike(load, *s) for s in periods if s[1] - s[0] >= sync_seconds)


def _parts(load: OfferedLoad) -> Iterator[tuple[float, float, Segment]]:
    edges = [*(part.start_seconds for part in load.segments), load.duration_seconds]
    for (start, end), part in zip(pairwise(edges), load.segments, strict=True):
        yield start, end, part


def _joined(
    periods: Iterator[tuple[float, float]], shorter_than: float
) -> list[tuple[float, float]]:
    """Join periods that touch, or are closer than ``shorter_than``; return all periods."""
    found: list[tuple[float, float]] = []
    for start, end in periods:
        if found and (start <= found[-1][1] or start - found[-1][1] < shorter_than):
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def _spike(load: OfferedLoad, start: float, end: float) -> Spike:
    rates = [p.rate_per_second for left, right, p in _parts(load) if left < end and right > start]
    before = [p.rate_per_second for _, right, p in _parts(load) if right <= start]
    return Spike(start, end, before[-1] if before else 0.0, max(rates))
