"""Compute the CPU of a consumer pod over time; each pod reports its CPU time once a second.

A pod's use between two of its reports is the CPU time spent in between, in cores. Reports more than
3.5 s apart, and a total that fell (the container was restarted), give no value for that time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lagbench.core.measures.evidence.gaps import GAP_SECONDS
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.statistics import Ints, Reals
from lagbench.core.telemetry.consumer import ConsumerProgress
from lagbench.core.telemetry.records import TelemetryRecord


@dataclass(frozen=True, slots=True)
class ConsumerCpu:
    """Cores in use at each ``at`` (unix ns, a second apart); NaN where no pod reported."""

    at: Ints
    mean: Reals
    highest: Reals


def consumer_cpu(records: Iterable[TelemetryRecord]) -> ConsumerCpu:
    """Return the mean and the highest use of the pods; empty without two reports of a pod."""
    reports: dict[str, list[ConsumerProgress]] = {}
    for record in records:
        if isinstance(record, ConsumerProgress):
            reports.setdefault(record.source, []).append(record)
    lines = [sorted(own, key=lambda report: report.at) for own in reports.values() if len(own) > 1]
    if not lines:
        none = np.empty(0)
        return ConsumerCpu(np.empty(0, dtype=np.int64), none, none)
    start, end = min(own[0].at for own in lines), max(own[-1].at for own in lines)
    grid = np.arange(start + NANOSECONDS, end + NANOSECONDS, NANOSECONDS, dtype=np.int64)
    grid = np.minimum(grid, end)
    total, count = np.zeros(grid.size), np.zeros(grid.size)
    highest = np.full(grid.size, np.nan)
    for own in lines:
        use = _use(own, grid)
        is_known = ~np.isnan(use)
        total[is_known] += use[is_known]
        count += is_known
        highest = np.fmax(highest, use)
    mean = np.full(grid.size, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    return ConsumerCpu(grid, mean, highest)


def _use(own: list[ConsumerProgress], grid: Ints) -> Reals:
    """Return the cores in use by one pod at each instant of ``grid``; NaN without a report."""
    use = np.full(grid.size, np.nan)
    for left, right in pairwise(own):
        seconds = (right.at - left.at) / NANOSECONDS
        spent = right.cpu_seconds - left.cpu_seconds
        if spent < 0 or not 0 < seconds <= GAP_SECONDS:
            continue
        first, end = np.searchsorted(grid, [left.at, right.at], side="right")
        use[first:end] = spent / seconds
    return use
