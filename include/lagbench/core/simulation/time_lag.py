"""The time lag of simulated messages: how long each waited, from its arrival until it was done.

A partition is done in the order of its arrivals. So its n-th message waited from the instant at
which n had arrived until the one at which n were done. Within a partition the messages are taken at
evenly spaced places.
"""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple

import numpy as np

from lagbench.core.measures import Reals
from lagbench.core.simulation.traffic import Traffic

MESSAGES = 1_000
"""Messages of each partition whose wait is computed: a tenth of a percentile apart."""


class TimeLag(NamedTuple):
    """Percentiles in seconds; None: no message arrives, or that one was not done at the end."""

    p50: float | None
    p99: float | None


def time_lag_seconds(
    traffic: Traffic, instants: Reals, lags: Reals, planned_seconds: float
) -> TimeLag:
    """Return the percentiles over the messages that arrive before ``planned_seconds``.

    ``lags`` is [instant, partition].
    """
    starts = np.array([*traffic.starts, *(at for at, _ in traffic.growths)])
    grid = np.unique(np.concatenate([instants, starts, [planned_seconds]]))
    grid = grid[(grid >= instants[0]) & (grid <= instants[-1])]
    counts = traffic.counts_at(grid)
    waits, weights = [], []
    for place, column in enumerate(lags.T):
        came = traffic.shares[place] * counts
        if traffic.growths:
            came = traffic.records_of(place, grid)
        done = np.maximum.accumulate(came - np.interp(grid, instants, column))
        planned = float(np.interp(planned_seconds, grid, came))
        if planned <= 0:
            continue
        messages = planned * (np.arange(MESSAGES) + 0.5) / MESSAGES
        done_at = np.interp(messages, done, grid, right=np.inf)
        waits.append(done_at - np.interp(messages, came, grid))
        weights.append(planned / MESSAGES)
    if not waits:
        return TimeLag(None, None)
    every = np.concatenate(waits)
    order = np.argsort(every)
    summed = np.cumsum(np.repeat(weights, MESSAGES)[order])
    return TimeLag(*(_percentile(every[order], summed, share) for share in (0.5, 0.99)))


def _percentile(waits: Reals, summed: Reals, share: float) -> float | None:
    """Return the wait that ``share`` of all messages do not exceed; ``summed``: how many up to."""
    found = float(waits[np.searchsorted(summed, share * summed[-1])])
    return max(found, 0.0) if isfinite(found) else None
