"""Measure the dip of the group's rate in a rebalance: depth, area, recovery.

*Expected* is the work of the group without the rebalance (``expected_work.py``); *done* is its
work in the table ``timeline``. So a group that has nothing to do does not dip.

* depth: 1 - done / expected, the worst window that starts in the episode or up to 5 s after. The
  group cannot lose more in a window than is undone at its end: the rest it did before. A window is
  1 s; it is wider if fewer than SMALLEST_EXPECTED messages were expected in every second, and never
  shorter than ten times a message's cost (pods end such messages in bursts);
* short depth: the same in windows of a fifth of that length, 0.2 s: it shows a stop that the added
  pods make up for within a second;
* area: the most that the group fell behind the expected work, before recovery (at the latest 5 s
  after the episode, if no window was low): in messages, and in seconds of the rate that was
  expected while it fell behind;
* recovery: from the start of the first window below 95 % of the expected work to the start of the
  first one at 95 % or more after the worst; 0 when no window was below.

The watch ends with the next episode, at most 60 s after this one. A window in which fewer than
SMALLEST_EXPECTED messages were expected is not meaningful and is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagbench.core.measures.evidence.lag_readings import BIN_NS, RateSeries
from lagbench.core.measures.model import NANOSECONDS, Ints, Reals

WINDOW_BINS = 10
SHORT_SHARE = 5
BEFORE_BINS = 100
AFTERMATH_SECONDS = 5.0
WATCH_SECONDS = 60.0
RECOVERED_SHARE = 0.95
SMALLEST_EXPECTED = 20.0
COSTS_PER_WINDOW = 10
IN_FLIGHT_BINS = 2
"""From the planned instant to the work (produce, fetch): about 0.1 s, plus a bin of rounding."""
_ROUNDING = 1e-6
"""In messages: the error in sums of binary fractions is smaller."""
NOTHING_TO_DO = "the group had almost no work"
NO_WORK_REASONS = (NOTHING_TO_DO,)
"""Reasons that need no measurement: a group with nothing to do has nothing to lose."""


@dataclass(frozen=True, slots=True)
class EpisodeBins:
    """Bins of an episode: windows start in [first, searched], the watch ends before ``watch``."""

    first: int
    searched: int
    watch: int


@dataclass(frozen=True, slots=True)
class RateDip:
    """A dip; None with ``reason`` where it could not be measured."""

    dip_percent: float | None
    observed_seconds: float
    reason: str
    window_seconds: float | None = None
    expected_rate_per_second: float | None = None  # in the deepest window, like the next
    min_rate_per_second: float | None = None
    short_dip_percent: float | None = None
    dip_area_messages: float | None = None
    area_seconds: float | None = None
    recovery_seconds: float | None = None
    over_seconds: float = 0.0  # from the episode's start until no window was low any more


def rate_series(
    at: Ints, offered: Ints, processed: Ints, *, until_at: int | None = None
) -> RateSeries:
    """Return the series of the table ``timeline``; a bin without a row had no message.

    ``until_at`` is how long the run was observed: after the last message it is known that nothing
    is processed, so a rebalance then (the scale-down after the drain) has no work and no dip.
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


def episode_bins(
    rate: RateSeries, *, started_at: int, settled_at: int, next_started_at: int | None
) -> EpisodeBins:
    """Return the bins to watch for an episode that lasted until ``settled_at``."""
    first = rate.bin_of(started_at)
    watch_at = settled_at + round(WATCH_SECONDS * NANOSECONDS)
    if next_started_at is not None:
        watch_at = min(watch_at, next_started_at)
    watch = max(rate.bin_of(watch_at), min(first + WINDOW_BINS, rate.processed.size))
    searched = rate.bin_of(settled_at + round(AFTERMATH_SECONDS * NANOSECONDS))
    return EpisodeBins(first, searched, watch)


def window_bins(expected: Reals, searched: int, message_seconds: float) -> int:
    """Return the smallest meaningful width of a window; ``searched``: as in ``depth``."""
    bins = max(WINDOW_BINS, round(COSTS_PER_WINDOW * message_seconds * WINDOW_BINS))
    while bins < expected.size:
        if _sums(expected, bins)[: searched + 1].max() >= SMALLEST_EXPECTED:
            return bins
        bins += max(1, bins // 4)
    return max(expected.size, 1)


def depth(
    expected: Reals, done: Ints, bins: int, searched: int, undone: Reals | None = None
) -> tuple[float, int, npt.NDArray[np.bool_]] | None:
    """Return the deepest window's share of work not done, its place, and which windows are low.

    Windows start in bins 0 to ``searched``. None: too little was expected in all of them.
    ``undone``: messages at the edges of the bins; None: not known.
    """
    wanted, made = _sums(expected, bins), _sums(done, bins)
    if undone is not None:
        made = np.maximum(made, wanted - undone[bins:])
    says = wanted >= min(SMALLEST_EXPECTED, SMALLEST_EXPECTED * bins / WINDOW_BINS)
    searchable = says.copy()
    searchable[searched + 1 :] = False
    if not searchable.any():
        return None
    share = np.divide(made, wanted, out=np.ones_like(wanted), where=wanted > 0)
    worst = int(np.flatnonzero(searchable)[np.argmin(share[searchable])])
    return max(0.0, 1 - float(share[worst])), worst, (share < RECOVERED_SHARE) & says


def area(expected: Reals, done: Ints) -> tuple[float, float]:
    """Return the most that ``done`` fell behind ``expected``, in messages and in seconds of it."""
    behind = np.concatenate([[0.0], np.cumsum(expected - done)])
    fallen = behind - np.minimum.accumulate(behind)
    end = int(np.argmax(fallen))
    if fallen[end] < _ROUNDING:
        return 0.0, 0.0
    start = int(np.flatnonzero(behind[: end + 1] == behind[: end + 1].min())[-1])
    rate = float(expected[start:end].sum()) / ((end - start) / WINDOW_BINS)
    return float(fallen[end]), float(fallen[end]) / rate


def rate_dip(
    rate: RateSeries,
    watched: EpisodeBins,
    expected: Reals,
    *,
    available: float,
    undone: Reals | None = None,
    message_seconds: float = 0.0,
) -> RateDip:
    """Return the dip of an episode.

    ``expected``: for each bin of [first, watch); ``available``: all the work in them; ``undone``:
    as in ``depth``.
    """
    first, watch = watched.first, watched.watch
    observed = (watch - first) * BIN_NS / NANOSECONDS
    if available < SMALLEST_EXPECTED:
        return RateDip(None, observed, NOTHING_TO_DO)
    if watch - first < WINDOW_BINS:
        return RateDip(None, observed, "watched for less than 1 s")
    done, searched = rate.processed[first:watch], watched.searched - first
    bins = window_bins(expected, searched, message_seconds)
    found = depth(expected, done, bins, searched, undone)
    if found is None:
        why = f"fewer than {SMALLEST_EXPECTED:g} messages were expected in {observed:g} s"
        return RateDip(None, observed, why)
    share, worst, is_low = found
    recovery, why, until = _recovery(is_low, worst, bins)
    lost, seconds = area(expected[: max(until, searched)], done[: max(until, searched)])
    short = depth(expected, done, max(bins // SHORT_SHARE, 1), searched, undone)
    window_seconds = bins / WINDOW_BINS
    return RateDip(
        dip_percent=100 * share,
        observed_seconds=observed,
        reason=why,
        window_seconds=window_seconds,
        expected_rate_per_second=float(expected[worst : worst + bins].sum()) / window_seconds,
        min_rate_per_second=float(done[worst : worst + bins].sum()) / window_seconds,
        short_dip_percent=None if short is None else 100 * short[0],
        dip_area_messages=lost,
        area_seconds=seconds,
        recovery_seconds=recovery,
        over_seconds=min(until, watch - first) / WINDOW_BINS,
    )


def _sums(values: Reals | Ints, bins: int) -> Reals:
    total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    sums: Reals = np.maximum(total[bins:] - total[:-bins], 0.0)
    return sums


def _recovery(
    is_low: npt.NDArray[np.bool_], worst: int, bins: int
) -> tuple[float | None, str, int]:
    """Return recovery in seconds, why it is unknown, and the bin at which the dip ended."""
    if not is_low[worst]:
        return 0.0, "", 0
    back = np.flatnonzero(~is_low[worst:])
    if not back.size:
        why = "the rate did not return to 95 % in the observed time"
        return None, why, is_low.size + bins
    recovered = worst + int(back[0])
    first_low = int(np.flatnonzero(is_low)[0])
    return (recovered - first_low) / WINDOW_BINS, "", recovered + bins
