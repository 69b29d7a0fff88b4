"""Draw the wait of each message from the scenario's distribution.

A draw depends only on the seed and on the message's producer and seq, so a message costs the same
on every pod, in every order and in a run again. All bits are equal on every machine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lagbench.core.scenario.event_stream import Floats, exact_exp, exact_log
from lagbench.core.scenario.message_costs import MOST_MS, LognormalCost, ProcessCost
from lagbench.shared_with_spark.event import Events

Nanoseconds = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
_NS_PER_MS = 1_000_000
_STEP = np.uint64(0x9E3779B97F4A7C15)

# Acklam's rational approximation of the normal quantile, relative error below 1.2e-9.
_MIDDLE_ABOVE = (
    *(-3.969683028665376e01, 2.209460984245205e02, -2.759285104469687e02),
    *(1.383577518672690e02, -3.066479806614716e01, 2.506628277459239e00),
)
_MIDDLE_BELOW = (
    *(-5.447609879822406e01, 1.615858368580409e02, -1.556989798598866e02),
    *(6.680131188771972e01, -1.328068155288572e01, 1.0),
)
_TAIL_ABOVE = (
    *(-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e00),
    *(-2.549732539343734e00, 4.374664141464968e00, 2.938163982698783e00),
)
_TAIL_BELOW = (
    *(7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e00),
    *(3.754408661907416e00, 1.0),
)
_TAIL_SHARE = 0.02425


def process_ns(cost: ProcessCost, events: Events, *, seed: int) -> Nanoseconds:
    """Return the wait of each event in nanoseconds."""
    uniform = _uniform(events, seed)
    if isinstance(cost, LognormalCost):
        ms = exact_exp(cost.mu + cost.sigma * normal_quantile(uniform))
    else:
        ends = np.add.accumulate(np.array([part.share for part in cost.parts]))
        last = len(cost.parts) - 1
        chosen = np.minimum(np.searchsorted(ends, uniform, side="right"), last)
        ms = np.array([part.ms for part in cost.parts])[chosen]
    found: Nanoseconds = np.rint(np.minimum(ms, MOST_MS) * _NS_PER_MS).astype(np.int64)
    return found


def normal_quantile(uniform: Floats) -> Floats:
    """Return the standard normal quantile of numbers in (0, 1)."""
    from_middle = uniform - 0.5
    square = from_middle * from_middle
    found: Floats = (
        from_middle * _polynomial(_MIDDLE_ABOVE, square) / _polynomial(_MIDDLE_BELOW, square)
    )
    share = np.minimum(uniform, 1.0 - uniform)
    is_tail = share < _TAIL_SHARE
    if is_tail.any():
        root = np.sqrt(-2.0 * exact_log(share[is_tail]))
        tail = _polynomial(_TAIL_ABOVE, root) / _polynomial(_TAIL_BELOW, root)
        found[is_tail] = np.where(uniform[is_tail] < 0.5, tail, -tail)
    return found


def _polynomial(terms: tuple[float, ...], at: Floats) -> Floats:
    total = np.full_like(at, terms[0])
    for term in terms[1:]:
        total = total * at + term
    return total


def _uniform(events: Events, seed: int) -> Floats:
    """Return a number in (0, 1) for each event, by seed, producer and seq."""
    key = _mixed(np.array([seed], dtype=np.uint64))
    producers: Words = events["producer_id"].astype(np.uint64)
    of_producer = _mixed(key + producers * _STEP)
    seqs: Words = events["seq"].astype(np.uint64)
    words = _mixed(of_producer + seqs * _STEP)
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _mixed(words: Words) -> Words:
    """Return well mixed bits of each word (the finaliser of SplitMix64)."""
    words = words + _STEP
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
