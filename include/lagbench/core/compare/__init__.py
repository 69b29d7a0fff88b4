"""Compare runs with each other."""

from lagbench.core.compare.cell_identity import cell_id, content_digest
from lagbench.core.compare.comparable import ComparedRun, comparable
from lagbench.core.compare.compare import (
    BOUNDS,
    Bound,
    ComparedMeasure,
    Comparison,
    compare_measures,
)
from lagbench.core.compare.environment import Environment
from lagbench.core.compare.noise_floor import NoiseFloor, measure_noise
from lagbench.core.compare.pairs import (
    PLANNED_LOOKS,
    Difference,
    DifferenceVerdict,
    Pair,
    compare_pairs,
)

__all__ = [
    "BOUNDS",
    "PLANNED_LOOKS",
    "Bound",
    "ComparedMeasure",
    "ComparedRun",
    "Comparison",
    "Difference",
    "DifferenceVerdict",
    "Environment",
    "NoiseFloor",
    "Pair",
    "cell_id",
    "comparable",
    "compare_measures",
    "compare_pairs",
    "content_digest",
    "measure_noise",
]
