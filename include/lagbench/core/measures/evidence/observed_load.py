"""Derive the load of an observed group, and the rate of one of its pods, from offsets.

The load is what the log took: the growth of the end offsets between samples. The rate of a pod is
what the group committed in its longest busy stretch, divided by its members: a time without a
change of members in which more than ``BUSY_SECONDS`` of its work waited in each sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from lagbench.core.measures.evidence.log_cuts import cuts_until, growth
from lagbench.core.measures.evidence.series import LagSeries
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.statistics import Reals
from lagbench.core.telemetry.recorder import GroupSample
from lagbench.core.telemetry.records import TelemetryRecord

STEP_SECONDS = 5.0
"""Consumers commit every five seconds by default, and rates of a single second are noise."""
BUSY_SECONDS = 2.0
SHORTEST_BUSY_SECONDS = 15.0


def observed_rates(lag: LagSeries, *, from_at: int, until_at: int) -> list[tuple[float, float]]:
    """Return the load as rows of (second after ``from_at``, messages per second).

    The last row ends the load; its rate is 0. Rows are ``STEP_SECONDS`` apart. Where a partition is
    unknown, its load between the neighbours is even. Where its log was cut, it took nothing.
    """
    if lag.at.size < 2:
        return []
    length = (until_at - from_at) / NANOSECONDS
    seconds = [*np.arange(0.0, max(length - STEP_SECONDS / 2, STEP_SECONDS / 2), STEP_SECONDS)]
    edges = np.array([*seconds, length])
    instants = from_at + edges * NANOSECONDS
    taken = sum((_taken(lag, place, instants) for place in range(lag.partitions.size)), 0 * edges)
    rates = np.diff(taken) / np.diff(edges)
    rows = [
        (round(float(second), 3), round(float(rate), 3))
        for second, rate in zip(seconds, rates, strict=True)
    ]
    return [*rows, (round(length, 3), 0.0)]


def _taken(lag: LagSeries, place: int, instants: Reals) -> Reals:
    """Return what a partition's log had taken until each instant."""
    ends = lag.end_offsets[:, place]
    known = ~np.isnan(ends)
    if not known.any():
        return np.zeros_like(instants)
    taken: Reals = np.interp(instants, lag.at[known], growth(ends[known], cuts_until(ends)[known]))
    return taken


@dataclass(frozen=True, slots=True)
class PodRate:
    """The rate of one pod (messages per second; None: not seen), and where it is from."""

    per_second: float | None
    source: str


def observed_pod_rate(records: Sequence[TelemetryRecord], lag: LagSeries) -> PodRate:
    """Return what one member did while work waited for the whole group."""
    total = lag.total
    committed = lag.end_offsets.sum(axis=1) - total
    members = _members(records, lag.at.tolist())
    cuts = np.sum([cuts_until(column) for column in lag.end_offsets.T], axis=0)
    keys = [
        (0 if np.isnan(offsets) else count, number)
        for offsets, count, number in zip(committed, members, cuts.tolist(), strict=True)
    ]
    best = PodRate(None, "the group was never busy for long enough to show it")
    longest, first = 0.0, 0
    for (count, _), same in groupby(keys):
        last = first + len(list(same))
        seconds = (lag.at[first:last] - lag.at[first]) / NANOSECONDS
        found = _busiest(seconds, committed[first:last], total[first:last]) if count else None
        if found is not None and found[0] > longest:
            longest, rate = found
            plural = "s" * (count != 1)
            text = f"{count} member{plural} did {rate:,.0f}/s while busy for {longest:.0f} s"
            best = PodRate(rate / count, text)
        first = last
    return best


def _members(records: Sequence[TelemetryRecord], instants: Sequence[int]) -> list[int]:
    """Return the members of the stable group at each instant; 0: none, or not stable."""
    samples = sorted((r for r in records if isinstance(r, GroupSample)), key=lambda r: r.at)
    at = [sample.at for sample in samples]
    found = []
    for instant in instants:
        place = int(np.searchsorted(at, instant, side="right")) - 1
        sample = samples[place] if place >= 0 else None
        is_settled = sample is not None and sample.state == "stable"
        found.append(sample.members if is_settled and sample is not None else 0)
    return found


def _busiest(seconds: Reals, committed: Reals, lag: Reals) -> tuple[float, float] | None:
    """Return seconds and rate of the longest busy stretch, from its first commit to its last."""
    changes = np.flatnonzero(np.diff(committed) > 0) + 1
    if changes.size < 2:
        return None
    first, last = int(changes[0]), int(changes[-1])
    length = float(seconds[last] - seconds[first])
    if length < SHORTEST_BUSY_SECONDS:
        return None
    rate = float(committed[last] - committed[first]) / length
    idle = first + np.flatnonzero(lag[first : last + 1] < BUSY_SECONDS * rate)
    if not idle.size:
        return length, rate
    edges = [first - 1, *idle.tolist(), last + 1]
    parts = [slice(before + 1, after) for before, after in pairwise(edges)]
    found = [_busiest(seconds[part], committed[part], lag[part]) for part in parts]
    return max((one for one in found if one is not None), default=None)
