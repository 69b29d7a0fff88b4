"""The paired t interval of a mean difference, and the number of pairs that would narrow it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from lagbench.core.compare.pairs.student_t import t_quantile

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """Mean and standard deviation of ``n`` differences (at least 2)."""

    n: int
    mean: float
    deviation: float

    @classmethod
    def of(cls, differences: Sequence[float]) -> Interval | None:
        """Return the interval of the differences; None with fewer than two."""
        if len(differences) < 2:
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
