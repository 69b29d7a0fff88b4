"""Planned looks at a growing set of pairs, and the alpha that each of them may spend.

Testing after each pair until a result is significant finds a difference where there is none. The
numbers of pairs at which the test is made are therefore fixed before the first pair, and alpha is
divided between them:

* Up to a look at n of N pairs, at most alpha x n/N may be spent.
* p-values of n pairs are multiples of 2/2^n. A look spends the highest multiple within its share;
  the rest of the share is kept for the later looks.

The chance of a false difference at any look is at most the sum of the spent shares, therefore at
most alpha. With 6, 8 and 12 pairs and alpha 5 %: the first look has a share of 2.5 %, below the
3.1 % that six pairs can reach, so it finds no difference (only equivalence). The second may spend
3.3 % (3.1 % are used), the third the remaining 1.9 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from lagbench.core.compare.pairs.sign_flip import MOST_PAIRS
from lagbench.core.significance import SIGNIFICANCE, floor_of
from lagbench.errors import WrongInput

_FEWEST_PAIRS = 2
_EXACT = 10**9


@dataclass(frozen=True, slots=True)
class Looks:
    """The numbers of pairs at which a comparison is tested, ascending."""

    pairs: tuple[int, ...]
    alpha: float = SIGNIFICANCE

    @classmethod
    def planned(cls, pairs: Sequence[int], alpha: float = SIGNIFICANCE) -> Looks:
        """Return the plan.

        :raises WrongInput: not ascending, or a number of pairs that cannot be tested.
        """
        is_ascending = all(before < after for before, after in pairwise(pairs))
        if not pairs or not is_ascending or pairs[0] < _FEWEST_PAIRS or pairs[-1] > MOST_PAIRS:
            raise WrongInput(
                where="comparison",
                field="looks",
                value=_listed(pairs),
                allowed=f"ascending numbers of pairs from {_FEWEST_PAIRS} to {MOST_PAIRS}",
            )
        return cls(tuple(pairs), alpha)

    def alpha_at(self, pairs: int) -> float:
        """Return the alpha of the look at ``pairs`` pairs.

        :raises WrongInput: the plan has no look there.
        """
        if pairs not in self.pairs:
            raise WrongInput(
                where="comparison",
                field="pairs",
                value=pairs,
                allowed=f"the planned looks {_listed(self.pairs)}",
            )
        spent = Fraction(0)
        for look in self.pairs:
            share = self._whole * look / self.pairs[-1] - spent
            if look == pairs:
                return float(share)
            spent += _attainable(share, look)
        raise AssertionError(pairs)

    @property
    def _whole(self) -> Fraction:
        return Fraction(self.alpha).limit_denominator(_EXACT)

    def later(self, pairs: int) -> tuple[int, ...]:
        """Return the looks after ``pairs`` pairs."""
        return tuple(look for look in self.pairs if look > pairs)


@dataclass(frozen=True, slots=True)
class Look:
    """One look of the plan: its pairs, its alpha, and the number of measures that it tests."""

    pairs: int
    alpha: float
    family: int
    plan: Looks

    def candidates(self) -> list[tuple[int, float]]:
        """Return later numbers of pairs, each with its alpha: the plan's, then plans of one look.

        A plan of one look is for a new set of pairs: after the last look this one is closed.
        """
        planned = [(later, self.plan.alpha_at(later)) for later in self.plan.later(self.pairs)]
        last = self.plan.pairs[-1]
        return planned + [(n, self.plan.alpha) for n in range(last + 1, MOST_PAIRS + 1)]


def _attainable(share: Fraction, pairs: int) -> Fraction:
    """Return the highest p-value of ``pairs`` pairs within ``share``; 0: there is none."""
    unit = Fraction(floor_of(pairs))
    return share // unit * unit


def _listed(pairs: Sequence[int]) -> str:
    return ", ".join(map(str, pairs))
