"""Take readings of the lag for missing where they stood still and the group did not.

A broker, a proxy or a cache that answers with old offsets shows a lag of before. A pod's
commit that the broker took is proof: a later reading has at least that offset. The readings of the
whole time in which nothing moved are then missing, as if the broker had not answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lagbench.core.measures.evidence.gaps import GAP_SECONDS, READ_WITHIN_SECONDS, Gap
from lagbench.core.measures.evidence.series import LagSeries
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.telemetry.consumer import OffsetsCommitted
from lagbench.core.telemetry.records import TelemetryRecord


def without_stale(
    lag: LagSeries, records: Sequence[TelemetryRecord]
) -> tuple[LagSeries, tuple[Gap, ...]]:
    """Return the series with its stale samples unknown, and the times that they covered."""
    if lag.at.size < 2:
        return lag, ()
    lag = _without_dips(lag)
    state = np.concatenate([lag.end_offsets, lag.by_partition], axis=1)
    stands = np.concatenate([[False], (state[1:] == state[:-1]).all(axis=1)])
    first_of = np.maximum.accumulate(np.where(stands, 0, np.arange(lag.at.size)))
    is_stale = np.zeros(lag.at.size, dtype=bool)
    column = {partition: place for place, partition in enumerate(lag.partitions.tolist())}
    slack = round(READ_WITHIN_SECONDS * NANOSECONDS)
    for record in records:
        if not isinstance(record, OffsetsCommitted):
            continue
        since = int(np.searchsorted(lag.at, record.at + slack))
        if since >= lag.at.size or not stands[since]:
            continue
        known = lag.end_offsets[since] - lag.by_partition[since]
        places = [column[int(p)] for p in record.offsets if int(p) in column]
        offsets = [offset for p, offset in record.offsets.items() if int(p) in column]
        moved = int(first_of[since])
        is_newer = record.at > lag.at[moved]  # an offset that was set back since then stays lower
        if is_newer and any(known[at] < of for at, of in zip(places, offsets, strict=True)):
            is_stale |= first_of == moved
            is_stale[moved] = False
    if not is_stale.any():
        return lag, ()
    ends, lags = lag.end_offsets.copy(), lag.by_partition.copy()
    ends[is_stale] = lags[is_stale] = np.nan
    edges = np.flatnonzero(np.diff(np.concatenate([[0], is_stale.astype(np.int8), [0]])))
    spans = tuple(
        Gap(int(lag.at[start]), int(lag.at[end - 1]))
        for start, end in zip(edges[::2], edges[1::2], strict=True)
    )
    return replace(lag, end_offsets=ends, by_partition=lags), spans


def _without_dips(lag: LagSeries) -> LagSeries:
    """Return the series without samples whose end offsets fell and were back within a gap.

    A new leader may know of fewer records for a moment. Offsets that stay lower are of a new log.
    """
    wrong = np.zeros(lag.at.size, dtype=bool)
    for ends in lag.end_offsets.T:
        known = np.flatnonzero(~np.isnan(ends))
        highest = np.maximum.accumulate(ends[known])
        for place in known[ends[known] < highest]:
            before = highest[np.searchsorted(known, place)]
            back = known[(known > place) & (ends[known] >= before)]
            limit = lag.at[place] + round(GAP_SECONDS * NANOSECONDS)
            wrong[place] |= bool(back.size) and bool(lag.at[back[0]] <= limit)
    if not wrong.any():
        return lag
    ends, lags = lag.end_offsets.copy(), lag.by_partition.copy()
    ends[wrong] = lags[wrong] = np.nan
    return replace(lag, end_offsets=ends, by_partition=lags)
