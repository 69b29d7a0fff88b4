"""The statistics of paired differences: t interval, exact sign-flip test, Holm, planned looks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from statistics import fmean, stdev

import numpy as np

from lagbench.core.measures.model import Reals
from lagbench.core.significance import SIGNIFICANCE, floor_of
from lagbench.errors import WrongInput

CONFIDENCE = 0.95
MOST_PAIRS = 40
"""Each half of the sign-flip test then has 2^20 sums, which take 8 MB."""
_FEWEST_PAIRS = 2
_ROUNDING = 1e-12
_EXACT = 10**9


def t_quantile(confidence: float, degrees: int) -> float:
    """Return t with P(|T| < t) = ``confidence`` for ``degrees`` of freedom."""
    from scipy.special import stdtrit  # it costs 0.1 s, which most commands need not wait for

    return float(stdtrit(degrees, (1 + confidence) / 2))


@dataclass(frozen=True, slots=True)
class Interval:
    """The paired t interval of ``n`` differences (at least 2), by mean and standard deviation."""

    n: int
    mean: float
    deviation: float

    @classmethod
    def of(cls, differences: Sequence[float]) -> Interval | None:
        """Return the interval of the differences; None with fewer than two."""
        if len(differences) < _FEWEST_PAIRS:
            return None
        return cls(len(differences), fmean(differences), stdev(differences))

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return self.mean - self.half_width(self.n)

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return self.mean + self.half_width(self.n)

    def half_width(self, pairs: int) -> float:
        """Return half the width with ``pairs`` pairs, if the deviation stays."""
        return t_quantile(CONFIDENCE, pairs - 1) * self.deviation / math.sqrt(pairs)

    def is_inside(self, bound: float) -> bool:
        """Return whether the whole interval lies in +- ``bound``."""
        return -bound <= self.low and self.high <= bound

    def is_beyond(self, bound: float) -> bool:
        """Return whether the whole interval lies on one side of +- ``bound``."""
        return self.low > bound or self.high < -bound

    def clears(self, bound: float, pairs: int) -> bool:
        """Return whether ``pairs`` pairs would lie inside or beyond, if mean and deviation stay."""
        return self.half_width(pairs) < abs(abs(self.mean) - bound)


def sign_flip_p(differences: Sequence[float]) -> float:
    """Return the exact two-sided p-value of the mean difference against zero.

    If both sides of a pair come from the same distribution, the sign of each difference is a coin
    toss. Of all 2^n choices of the signs it is the share whose sum is at least as far from zero as
    the observed one. (``scipy.stats.permutation_test`` draws choices from about 13 pairs on.)

    :param differences: at most ``MOST_PAIRS`` that are not zero.
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


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm's adjusted p-values, in the order given.

    An adjusted value at or below alpha rejects: the probability of any false rejection in the whole
    family is then at most alpha, however the measures depend on each other.
    """
    adjusted, highest = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(np.argsort(p_values, kind="stable").tolist()):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return tuple(adjusted)


@dataclass(frozen=True, slots=True)
class Looks:
    """The numbers of pairs at which a comparison is tested, and the alpha that each may spend.

    Testing after each pair until a result is significant finds a difference where there is none.
    So the numbers are fixed before the first pair, and alpha is divided between them:

    * Up to a look at n of N pairs, at most alpha x n/N may be spent.
    * p-values of n pairs are multiples of 2/2^n. A look spends the highest multiple within its
      share; the rest of the share is kept for the later looks.

    The chance of a false difference at any look is at most the sum of the spent shares. With 6, 8
    and 12 pairs and alpha 5 % the first look has a share of 2.5 %, below the 3.1 % that six pairs
    can reach, so it finds no difference (only equivalence). The second may spend 3.3 % (3.1 % are
    used), the third the remaining 1.9 %.
    """

    pairs: tuple[int, ...]
    alpha: float = SIGNIFICANCE

    def __post_init__(self) -> None:
        """Require ascending numbers that can be tested.

        :raises WrongInput: they are not.
        """
        looks = self.pairs
        is_ascending = all(before < after for before, after in pairwise(looks))
        if not looks or not is_ascending or looks[0] < _FEWEST_PAIRS or looks[-1] > MOST_PAIRS:
            allowed = f"ascending numbers of pairs from {_FEWEST_PAIRS} to {MOST_PAIRS}"
            shown = ", ".join(map(str, looks))
            raise WrongInput(where="comparison", field="looks", value=shown, allowed=allowed)

    def alpha_at(self, pairs: int) -> float:
        """Return the alpha of the look at ``pairs`` pairs.

        :raises WrongInput: the plan has no look there.
        """
        whole, spent = Fraction(self.alpha).limit_denominator(_EXACT), Fraction(0)
        for look in self.pairs:
            share = whole * look / self.pairs[-1] - spent
            if look == pairs:
                return float(share)
            unit = Fraction(floor_of(look))
            spent += share // unit * unit
        planned = ", ".join(map(str, self.pairs))
        raise WrongInput(
            where="comparison", field="pairs", value=pairs, allowed=f"the planned looks {planned}"
        )

    def after(self, pairs: int) -> list[tuple[int, float]]:
        """Return later numbers of pairs, each with its alpha: the plan's, then plans of one look.

        A plan of one look is for a new set of pairs: after the last look this one is closed.
        """
        planned = [(look, self.alpha_at(look)) for look in self.pairs if look > pairs]
        return planned + [(n, self.alpha) for n in range(self.pairs[-1] + 1, MOST_PAIRS + 1)]
