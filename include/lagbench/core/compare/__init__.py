"""Compare runs with each other."""

from lagbench.core.compare.cell_identity import cell_id, content_digest, policies_digest
from lagbench.core.compare.comparable import DRAWN_FOR_PAIRS, ComparedRun, comparable
from lagbench.core.compare.compare import (
    BOUNDS,
    Bound,
    ComparedMeasure,
    Comparison,
    compare_measures,
)
from lagbench.core.compare.environment import Environment, differing_facts
from lagbench.core.compare.noise_floor import NoiseFloor, bounds_of, closest_floor, noise_floor
from lagbench.core.compare.pairs import (
    Difference,
    DifferenceVerdict,
    Pair,
    compare_pairs,
)
from lagbench.core.compare.sides import (
    RunPair,
    pairs_by_seed,
    pairs_of_one_cell,
    require_comparable,
    sides_by_policy,
)

__all__ = [
    "BOUNDS",
    "DRAWN_FOR_PAIRS",
    "Bound",
    "ComparedMeasure",
    "ComparedRun",
    "Comparison",
    "Difference",
    "DifferenceVerdict",
    "Environment",
    "NoiseFloor",
    "Pair",
    "RunPair",
    "bounds_of",
    "cell_id",
    "closest_floor",
    "comparable",
    "compare_measures",
    "compare_pairs",
    "content_digest",
    "differing_facts",
    "noise_floor",
    "pairs_by_seed",
    "pairs_of_one_cell",
    "policies_digest",
    "require_comparable",
    "sides_by_policy",
]
