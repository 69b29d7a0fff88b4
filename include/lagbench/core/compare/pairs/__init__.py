"""Compare two sides by pairs of runs with the same seed."""

from lagbench.core.compare.pairs.compare_pairs import compare_pairs
from lagbench.core.compare.pairs.difference import Difference, DifferenceVerdict, Pair
from lagbench.core.compare.pairs.interval import Interval
from lagbench.core.compare.pairs.sample import IDENTITY_COUNTS
from lagbench.core.compare.pairs.sign_flip import holm, sign_flip_p
from lagbench.core.compare.pairs.student_t import t_quantile

__all__ = [
    "IDENTITY_COUNTS",
    "Difference",
    "DifferenceVerdict",
    "Interval",
    "Pair",
    "compare_pairs",
    "holm",
    "sign_flip_p",
    "t_quantile",
]
