"""The dip of the group's rate in a rebalance: depth, area, recovery.

The rate before is the mean of the 10 s before the episode (or of what there is, at least 1 s).
Expected is what a group working on at that rate would have done: it starts with the backlog of the
episode's first instant, gets what is offered, and cannot do more than there is. What it does in
IN_FLIGHT_SECONDS is on its way, not waiting, and no part of the backlog. So a group that has
nothing to do does not dip. (Such a group has no skew: where the work left lies in one hot
partition, expected is too high and the dip an upper bound.)

* depth: 1 - done / expected, the worst 1 s window that starts in the episode or up to 5 s after;
* area: how many messages the group was behind the expected at the worst instant before recovery
  (5 s after the episode at the latest, where no window was low);
* recovery: from the start of the first 1 s window below 95 % of the expected to the start of the
  first one at 95 % or more after the worst; 0 when no window was below.

The watch ends with the next episode, at most 60 s after this one. A window in which fewer than
SMALLEST_EXPECTED messages were expected says nothing and is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagbench.core.measures import NANOSECONDS
from lagbench.core.statistics import Ints, Reals, sliding_sums

BIN_NS = 100_000_000
WINDOW_BINS = 10
BEFORE_BINS = 100
AFTERMATH_SECONDS = 5.0
WATCH_SECONDS = 60.0
RECOVERED_SHARE = 0.95
SMALLEST_EXPECTED = 20.0
IN_FLIGHT_SECONDS = 0.2
"""From the planned instant over produce, fetch and work: some 0.1 s, and a bin of rounding."""
TOO_LITTLE_WORK = "too little work to tell a dip"
NOTHING_PROCESSED = "nothing was processed in the 10 s before"
NO_WORK_REASONS = (TOO_LITTLE_WORK, NOTHING_PROCESSED)
"""Reasons that speak for themselves: a group with nothing to do has nothing to lose."""


@dataclass(frozen=True, slots=True)
class RateSeries:
    """Messages per 100 ms bin from ``started_at`` (unix ns) on, without holes."""

    started_at: int
    offered: Ints
    processed: Ints

    def bin_of(self, at: int) -> int:
        """Return the bin that holds ``at``, bounded to the series."""
        return min(max((at - self.started_at) // BIN_NS, 0), self.processed.size)

    def at_bin(self, index: int) -> int:
        """Return the start of bin ``index``."""
        return self.started_at + index * BIN_NS

    def processed_between(self, from_at: int, until_at: int) -> int:
        """Return the messages done in the bins that start in [from_at, until_at)."""
        return int(self.processed[self.bin_of(from_at) : self.bin_of(until_at)].sum())


@dataclass(frozen=True, slots=True)
class RateDip:
    """A dip; None with ``reason`` where it could not be measured."""

    mean_rate_before_per_second: float | None
    min_rate_per_second: float | None
    dip_percent: float | None
    area_messages: float | None
    recovery_seconds: float | None
    observed_seconds: float
    reason: str


def rate_series(
    at: Ints, offered: Ints, processed: Ints, *, until_at: int | None = None
) -> RateSeries:
    """Return the series of the table ``timeline``; a bin without a row had no message.

    ``until_at`` is how long the run was observed: after the last message nothing is processed,
    which is known, and a rebalance then (the scale-down after the drain) has no work to dip.
    """
    if not at.size:
        return RateSeries(0, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    started_at = int(at.min())
    index = (at - started_at) // BIN_NS
    last_at = max(int(at.max()), until_at if until_at is not None else 0)
    size = (last_at - started_at) // BIN_NS + 1
    whole = [np.zeros(size, dtype=np.int64) for _ in range(2)]
    np.add.at(whole[0], index, offered)
    np.add.at(whole[1], index, processed)
    return RateSeries(started_at, whole[0], whole[1])


def mean_rate_before(rate: RateSeries, at: int) -> float | None:
    """Return messages per second over the 10 s before ``at``; None with less than 1 s of data."""
    end = rate.bin_of(at)
    start = max(0, end - BEFORE_BINS)
    if end - start < WINDOW_BINS:
        return None
    return float(rate.processed[start:end].sum()) / ((end - start) / WINDOW_BINS)


def rate_dip(
    rate: RateSeries, *, started_at: int, ended_at: int | None, next_started_at: int | None
) -> RateDip:
    """Return the dip of the episode [started_at, ended_at]."""
    last_at = ended_at if ended_at is not None else started_at
    first = rate.bin_of(started_at)
    watch_at = last_at + round(WATCH_SECONDS * NANOSECONDS)
    if next_started_at is not None:
        watch_at = min(watch_at, next_started_at)
    watch = max(rate.bin_of(watch_at), min(first + WINDOW_BINS, rate.processed.size))
    observed = (watch - first) * BIN_NS / NANOSECONDS
    mean = mean_rate_before(rate, started_at)
    why = _unmeasurable(mean, watch - first)
    if why or mean is None:
        return RateDip(mean, None, None, None, None, observed, why)
    expected_bins = _expected(rate, mean, first, watch)
    expected = np.convolve(expected_bins, np.ones(WINDOW_BINS), mode="valid")
    done = sliding_sums(rate.processed[first:watch], WINDOW_BINS).astype(np.float64)
    searched = rate.bin_of(last_at + round(AFTERMATH_SECONDS * NANOSECONDS)) - first
    says = expected >= SMALLEST_EXPECTED
    says[max(1, searched - WINDOW_BINS + 1) :] = False
    if not says.any():
        return RateDip(mean, None, None, None, None, observed, TOO_LITTLE_WORK)
    share = np.divide(done, expected, out=np.ones_like(expected), where=expected > 0)
    worst = int(np.flatnonzero(says)[np.argmin(share[says])])
    is_low = (share < RECOVERED_SHARE) & (expected >= SMALLEST_EXPECTED)
    recovery, why, until = _recovery(is_low, worst)
    behind = np.cumsum(expected_bins - rate.processed[first:watch])[: max(until, searched)]
    return RateDip(
        mean_rate_before_per_second=mean,
        min_rate_per_second=float(done[worst]),
        dip_percent=max(0.0, 100 * (1 - float(share[worst]))),
        area_messages=max(0.0, float(behind.max())),
        recovery_seconds=recovery,
        observed_seconds=observed,
        reason=why,
    )


def _unmeasurable(mean: float | None, watched_bins: int) -> str:
    if mean is None:
        return "no second of rate before the episode"
    if mean == 0:
        return NOTHING_PROCESSED
    if watched_bins < WINDOW_BINS:
        return "watched for less than 1 s"
    return ""


def _expected(rate: RateSeries, mean: float, first: int, watch: int) -> Reals:
    """Return what would have been done in each bin of [first, watch) at the rate before."""
    capacity = mean / WINDOW_BINS
    waiting = float(rate.offered[:first].sum() - rate.processed[:first].sum())
    backlog = max(0.0, waiting - mean * IN_FLIGHT_SECONDS)
    expected = np.zeros(watch - first)
    for place, offered in enumerate(rate.offered[first:watch].tolist()):
        expected[place] = min(capacity, backlog + offered)
        backlog += offered - expected[place]
    return expected


def _recovery(is_low: npt.NDArray[np.bool_], worst: int) -> tuple[float | None, str, int]:
    """Return recovery in seconds, why it is unknown, and the bin at which the dip was over."""
    if not is_low[worst]:
        return 0.0, "", 0
    back = np.flatnonzero(~is_low[worst:])
    if not back.size:
        why = "the rate was not back at 95 % while it was watched"
        return None, why, is_low.size + WINDOW_BINS
    recovered = worst + int(back[0])
    first_low = int(np.flatnonzero(is_low)[0])
    return (recovered - first_low) / WINDOW_BINS, "", recovered + WINDOW_BINS
