"""Compute the rate of a group from its committed offsets, where no work is recorded.

Offsets are read once a second and move with each commit. Between two readings the work is spread
evenly, so no pause shorter than the time between two commits shows.
"""

from __future__ import annotations

import numpy as np

from lagbench.core.measures.evidence import BIN_NS, LagSeries, RateSeries


def rate_of_commits(rate: RateSeries, lag: LagSeries) -> RateSeries:
    """Return ``rate`` with the messages below the committed offsets as processed.

    An offset that was set back processes nothing until it is ahead of where it was.
    """
    committed = (lag.end_offsets - lag.by_partition).sum(axis=1)
    is_known = ~np.isnan(committed)
    size = rate.processed.size
    if not size or not is_known.any():
        return rate
    ahead = np.maximum.accumulate(committed[is_known])
    edges = rate.started_at + BIN_NS * np.arange(size + 1, dtype=np.int64)
    at = np.floor(np.interp(edges, lag.at[is_known], ahead, left=0.0)).astype(np.int64)
    return RateSeries(rate.started_at, rate.offered, np.diff(np.maximum.accumulate(at)))
