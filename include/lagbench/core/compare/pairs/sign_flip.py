"""The exact sign-flip test of paired differences, and Holm's correction for many measures.

If both sides of a pair come from the same distribution, the sign of each difference is a coin toss.
The test counts all 2^n ways to choose the signs, so its p-value needs no assumption on the shape of
the differences. It cannot be lower than 2/2^n: five pairs never reach 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lagbench.core.measures import Reals
from lagbench.core.significance import floor_of

MOST_PAIRS = 40
"""Each half then has 2^20 sums, which take 8 MB."""
_ROUNDING = 1e-12


def sign_flip_p(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of the mean difference against zero.

    It is the share of all sign choices whose sum is at least as far from zero as the observed one.

    :param differences: second minus first of each pair, at most ``MOST_PAIRS`` that are not zero.
    """
    sizes = [abs(value) for value in differences if value]
    target = abs(sum(differences)) - _ROUNDING * sum(sizes)
    if target <= 0:
        return 1.0
    # All sums of one half meet all sums of the other: 2^(n/2) numbers instead of 2^n.
    half = len(sizes) // 2
    low, high = _sums(sizes[:half]), np.sort(_sums(sizes[half:]))
    reached = high.size - np.searchsorted(high, target - low, side="left")
    return float(2 * int(reached.sum()) / 2 ** len(sizes))


def _sums(sizes: Sequence[float]) -> Reals:
    """Return the sum of ``sizes`` for every choice of signs."""
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums + size, sums - size])
    return sums


def smallest_p(differences: Sequence[float]) -> float:
    """Return the lowest p-value that these differences could reach: all signs alike.

    A difference of zero has no sign, so such a pair does not lower it.
    """
    return floor_of(sum(bool(value) for value in differences))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm's adjusted p-values, in the order given.

    An adjusted value at or below alpha rejects. The probability of any false rejection in the whole
    family is then at most alpha, however the measures depend on each other.
    """
    count = len(p_values)
    adjusted = [1.0] * count
    highest = 0.0
    for rank, place in enumerate(sorted(range(count), key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (count - rank) * p_values[place]))
        adjusted[place] = highest
    return tuple(adjusted)
