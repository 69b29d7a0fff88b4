"""When a difference of pairs counts: the planned numbers of pairs, and the p-value that is allowed.

Light on purpose: the Dags of the experiments import it whenever they are parsed.
"""

from __future__ import annotations

import math

PLANNED_LOOKS = (6, 8, 12)
"""Numbers of pairs: six can reach a p of 5 %, eight one of 1 %, twelve one of 0.05 %."""
SIGNIFICANCE = 0.05
"""The highest p-value of a difference that is shown: the alpha of all looks together."""


def floor_of(pairs: int) -> float:
    """Return the lowest p-value of ``pairs`` pairs that differ: 2/2^n, at most 1."""
    return 1.0 if pairs <= 1 else math.ldexp(1.0, 1 - pairs)
