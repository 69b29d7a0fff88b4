"""Compute the lag's build-up rate: how fast lag grows before scaling can respond.

For one spike it is (lag at the end - lag at the start) / (end - start), in messages per second. The
start is the spike's planned start. The end is the first rise of the desired replicas after it, or
the peak of total lag until the next spike, whichever comes first. Each lag is that of the last
sample at or before the instant, and the time is that between the two samples, so nothing is
interpolated. The fastest of several spikes counts. A gap of more than 3.5 s without a known
total has no rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from lagbench.core.measures.evidence.gaps import gaps_between, gaps_text
from lagbench.core.measures.evidence.load_window import SpikeWindow
from lagbench.core.measures.evidence.series import LagSeries
from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.measures.replicas.steps import ReplicaChange


class BuildUp(MeasureModel):
    """The growth of lag from a spike's start until replicas rose (``lag/build_up.py``)."""

    started_at: int  # the spike's planned start
    ended_at: int | None = None
    until: Literal["scale_out", "peak"] | None = None  # which of the two came first
    from_records: int | None = None
    to_records: int | None = None
    sampled_seconds: float | None = None  # between the two samples
    records_per_second: float | None = None
    reason: str = ""  # why there is no rate; empty when there is


def build_up(
    series: LagSeries,
    spikes: Sequence[SpikeWindow],
    changes: Sequence[ReplicaChange],
    *,
    until_at: int,
) -> BuildUp | None:
    """Return the fastest build-up of ``spikes`` (ascending); None without a spike.

    If no spike has a rate, the first one's reason is returned.
    """
    bounds = [*(spike.started_at for spike in spikes), until_at]
    found = [
        _of_spike(series, start, end, changes)
        for start, end in pairwise(bounds)
        if start < end <= until_at
    ]
    fastest = [each for each in found if each.records_per_second is not None] or found
    return max(fastest, key=lambda each: each.records_per_second or 0.0, default=None)


def _of_spike(
    series: LagSeries, start_at: int, next_at: int, changes: Sequence[ReplicaChange]
) -> BuildUp:
    rises = [c.at for c in changes if c.replicas_after > c.replicas_before]
    scaled_at = next((at for at in sorted(rises) if start_at < at <= next_at), None)
    watched_until = next_at if scaled_at is None else scaled_at
    known_at = np.asarray(series.known_at, dtype=np.int64)
    totals = series.total[~np.isnan(series.total)]
    first = int(np.searchsorted(known_at, start_at, side="right")) - 1
    end = int(np.searchsorted(known_at, watched_until, side="right"))
    if first < 0:
        return BuildUp(started_at=start_at, reason="there is no lag sample before the spike")
    inside = totals[first:end]
    last = first + int(np.argmax(inside))
    is_peak = scaled_at is None or bool(inside[-1] < inside.max())
    if not is_peak:
        last = end - 1
    ended_at = int(known_at[last]) if is_peak else watched_until
    gaps = [
        *gaps_between([], int(known_at[first]), start_at),
        *gaps_between(known_at.tolist(), start_at, watched_until),
    ]
    if gaps:
        return BuildUp(started_at=start_at, reason=gaps_text("lag", gaps))
    seconds = int(known_at[last] - known_at[first]) / NANOSECONDS
    if is_peak and last == first:
        return BuildUp(started_at=start_at, reason="lag did not rise")
    if seconds == 0:
        return BuildUp(
            started_at=start_at, reason="replicas rose before the second sample of the lag"
        )
    return BuildUp(
        started_at=start_at,
        ended_at=ended_at,
        until="peak" if is_peak else "scale_out",
        from_records=int(totals[first]),
        to_records=int(totals[last]),
        sampled_seconds=seconds,
        records_per_second=float(totals[last] - totals[first]) / seconds,
    )
