"""Count the messages by their time lag: exact, from the rows that the run folder keeps.

The rows are read in parts, so that a run of 20 million messages needs no more memory. The axis of
the time is logarithmic: a time lag goes from milliseconds to minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import ceil, log2, log10
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.model import NANOSECONDS, Ints, Reals
from lagbench.core.scenario.slo_limits import Slos
from lagbench.report.read_against import known_scenario

_EDGES: Reals = np.logspace(-4, 7, 11 * 64 + 1)
"""Seconds between which messages are counted: 64 bins in a decade."""
_MOST_BARS = 40
_FAR = 10.0
"""A limit that is further above the longest time lag would leave no room for the bars."""


class Bar(NamedTuple):
    """The messages of one range of the time lag; places are in percent of the plot."""

    from_seconds: float
    to_seconds: float
    messages: int
    left: float
    width: float
    height: float


class Mark(NamedTuple):
    """A value on the axis, in percent of it: a tick, a percentile or a limit."""

    text: str
    left: float


class Histogram(NamedTuple):
    """The parts of the figure."""

    bars: list[Bar]
    ticks: list[Mark]
    percentiles: list[Mark]
    limits: list[Mark]
    messages: int


def histogram(
    folder: RunFolder, measures: Measures, shifts: Mapping[str, int], producer_shift: int = 0
) -> Histogram | None:
    """Return the histogram; None: it is not known when each message was done.

    :param shifts: nanoseconds by which the clocks of pods are ahead, by the pod.
    """
    found, scenario = measures.lag.time_lag_seconds, known_scenario(folder)
    slos = scenario.slos if scenario else Slos()
    counts = np.zeros(_EDGES.size - 1, np.int64)
    for planned_at, lags in _lags(folder, shifts, producer_shift):
        is_in = planned_at < (measures.load.planned_until_at or np.iinfo(np.int64).max)
        counts += np.bincount(_bins(lags[is_in] / NANOSECONDS), minlength=counts.size)
    known = np.flatnonzero(counts)
    if found.p99 is None or not known.size:
        return None
    asked = (("p95", slos.time_lag_p95_seconds), ("p99", slos.time_lag_p99_seconds))
    limits = [(rank, limit) for rank, limit in asked if limit is not None]
    near = [limit for _, limit in limits if limit <= _FAR * _EDGES[known[-1] + 1]]
    first, last = known[0], max(known[-1], *_bins(np.array(near)).tolist(), 0)
    each = 1 << max(0, ceil(log2((last + 1 - first) / _MOST_BARS)))
    places = np.arange(first, last + 1, each)
    edges = _EDGES[np.minimum([*places, places[-1] + each], _EDGES.size - 1)]
    sums = np.add.reduceat(counts[: last + 1], places)

    def place(seconds: float) -> float:
        return round(100 * log10(seconds / edges[0]) / log10(edges[-1] / edges[0]), 2)

    def marks(values: Iterable[tuple[str, float | None]]) -> list[Mark]:
        given = ((text, seconds) for text, seconds in values if seconds is not None)
        return [Mark(text, place(at)) for text, at in given if edges[0] <= at <= edges[-1]]

    return Histogram(
        bars=[
            Bar(low, high, n, place(low), place(high) - place(low), round(100 * n / sums.max(), 2))
            for low, high, n in zip(edges, edges[1:], sums.tolist(), strict=False)
        ],
        ticks=marks((seconds_text(value), value) for value in _ticks(edges[0], edges[-1])),
        percentiles=marks((rank, getattr(found, rank)) for rank in ("p50", "p95", "p99")),
        limits=marks((f"limit of {rank}: {limit:g} s", limit) for rank, limit in limits),
        messages=int(counts.sum()),
    )


def _lags(
    folder: RunFolder, shifts: Mapping[str, int], producer_shift: int
) -> Iterator[tuple[Ints, Ints]]:
    """Yield planned instants and time lags of the messages that were done, in nanoseconds."""
    for part in sorted(folder.table("processed").glob("*.parquet")):
        columns, file = ["planned_at", "done_at", "pod"], pq.ParquetFile(part)
        if not set(columns) <= set(file.schema_arrow.names):
            return
        for rows in file.iter_batches(1 << 20, columns=columns):
            known = pc.drop_null(rows)
            pods = known["pod"].dictionary_encode()
            shift = np.array([shifts.get(pod, 0) for pod in pods.dictionary.to_pylist()], np.int64)
            planned_at = known["planned_at"].to_numpy() - producer_shift
            done_at = known["done_at"].to_numpy() - shift[pods.indices.to_numpy()]
            yield planned_at, done_at - planned_at


def _bins(seconds: Reals) -> Ints:
    """Return the bin of each value; a clock's error can make it shorter than any."""
    return np.clip(np.searchsorted(_EDGES, seconds, side="right") - 1, 0, _EDGES.size - 2)


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers from ``low`` to ``high``, no more than a phone has room for."""
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
