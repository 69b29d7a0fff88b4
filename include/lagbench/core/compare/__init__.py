"""Compare runs with each other."""

from lagbench.core.compare.cell_identity import cell_id, content_digest, policies_digest
from lagbench.core.compare.compare import ComparedMeasure, Comparison, compare_measures

__all__ = [
    "ComparedMeasure",
    "Comparison",
    "cell_id",
    "compare_measures",
    "content_digest",
    "policies_digest",
]
