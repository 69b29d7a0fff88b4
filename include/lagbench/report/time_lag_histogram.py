"""The histogram of the time lag: exact, from the rows of the messages that the run folder keeps.

The rows are read in parts, so that a run of 20 million messages needs no more memory. The axis of
the time is logarithmic: a time lag goes from milliseconds to minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import log10
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.model import NANOSECONDS, Ints, Reals
from lagbench.results.read_run import read_scenario

_EDGES: Reals = np.logspace(-4, 7, 11 * 64 + 1)
"""Seconds between which messages are counted: 64 bins in a decade."""
_MOST_BARS = 40
_FAR = 10.0
"""A limit that is further above the longest time lag would leave no room for the bars."""


@dataclass(frozen=True, slots=True)
class Bar:
    """The messages of one range of the time lag; places are in percent of the plot."""

    from_seconds: float
    to_seconds: float
    count: int
    left: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A value on the axis, in percent of it: a tick, a percentile or a limit."""

    text: str
    left: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """The parts of the figure."""

    bars: tuple[Bar, ...]
    ticks: tuple[Mark, ...]
    percentiles: tuple[Mark, ...]
    limits: tuple[Mark, ...]
    messages: int


def histogram(folder: RunFolder, measures: Measures) -> Histogram | None:
    """Return the histogram; None: it is not known when each message was done."""
    found = measures.lag.time_lag_seconds
    parts = sorted(folder.table("processed").glob("*.parquet"))
    if found.p99 is None or not parts:
        return None
    counts = np.zeros(_EDGES.size - 1, np.int64)
    for lags in _lags(parts, measures.load.planned_until_at):
        counts += np.bincount(_bins(lags / NANOSECONDS), minlength=counts.size)
    known = np.flatnonzero(counts)
    if not known.size:
        return None
    slos = read_scenario(folder).slos
    asked = (("p95", slos.time_lag_p95_seconds), ("p99", slos.time_lag_p99_seconds))
    limits = [(rank, limit) for rank, limit in asked if limit is not None]
    near = [limit for _, limit in limits if limit <= _FAR * _EDGES[known[-1] + 1]]
    first, last = known[0], max(known[-1], *_bins(np.array(near)).tolist(), 0)
    each = 1 << max(0, int(np.ceil(np.log2((last + 1 - first) / _MOST_BARS))))
    last = first + (last - first) // each * each + each
    edges = _EDGES[np.minimum(np.arange(first, last + 1, each), _EDGES.size - 1)]
    sums = np.add.reduceat(counts[first:last], np.arange(0, counts[first:last].size, each))

    def place(seconds: float) -> float:
        return round(100 * log10(seconds / edges[0]) / log10(edges[-1] / edges[0]), 2)

    def marks(values: Iterable[tuple[str, float | None]]) -> tuple[Mark, ...]:
        return tuple(
            Mark(text, place(seconds))
            for text, seconds in values
            if seconds is not None and edges[0] <= seconds <= edges[-1]
        )

    return Histogram(
        bars=tuple(
            Bar(low, high, n, place(low), place(high) - place(low), round(100 * n / sums.max(), 2))
            for low, high, n in zip(edges, edges[1:], sums.tolist(), strict=False)
        ),
        ticks=marks((seconds_text(value), value) for value in _ticks(edges[0], edges[-1])),
        percentiles=marks((rank, getattr(found, rank)) for rank in ("p50", "p95", "p99")),
        limits=marks((f"limit of {rank}: {limit:g} s", limit) for rank, limit in limits),
        messages=int(counts.sum()),
    )


def _bins(seconds: Reals) -> Ints:
    """Return the bin of each value; a clock's error can make it shorter than any."""
    return np.clip(np.searchsorted(_EDGES, seconds, side="right") - 1, 0, _EDGES.size - 2)


def _lags(parts: Iterable[Path], until_at: int | None) -> Iterator[Ints]:
    """Yield the time lags of the messages planned before ``until_at``, in nanoseconds."""
    for part in parts:
        columns = ["planned_at", "done_at"]
        for rows in pq.ParquetFile(part).iter_batches(1 << 20, columns=columns):
            known = pc.drop_null(rows)
            planned_at, done_at = (known.column(name).to_numpy() for name in columns)
            is_in = planned_at < (np.iinfo(np.int64).max if until_at is None else until_at)
            yield (done_at - planned_at)[is_in]


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers from ``low`` to ``high``: at least two, and no more than a phone has."""
    for digits in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        found = [digit * 10.0**decade for decade in range(-4, 8) for digit in digits]
        found = [value for value in found if low <= value <= high]
        if len(found) >= 3:
            return found
    return [low, high]


def seconds_text(seconds: float) -> str:
    """Return a time with its unit and three figures."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"
