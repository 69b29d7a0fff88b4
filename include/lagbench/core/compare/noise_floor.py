"""The noise floor of a cell: how far two runs of the same cell differ by chance.

It comes from an A/A set: pairs of runs with the same policy, load, machine and versions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lagbench.core.compare.compare import Bound
from lagbench.core.compare.environment import Environment
from lagbench.core.compare.pairs import IDENTITY_COUNTS, Pair, t_quantile
from lagbench.core.measures import NAMED, Fidelity, MeasureModel

CONFIDENCE = 0.95
FEWEST_PAIRS = 6
"""Below it the factor of the root mean square is over 2.5, and one pair decides the floor."""


class MeasureNoise(MeasureModel):
    """The noise of one measure: the difference of an A/A pair lies in +- ``half_width``."""

    name: str
    half_width: float
    n: int  # A/A pairs in which both runs have a value


class NoiseFloor(MeasureModel):
    """The noise of each measure of a cell, on one kind of machine with one set of versions."""

    scenario: str  # name of the scenario
    policy: str  # name of the policy
    load: str  # digest of everything that both sides share: scenario, target, fidelity
    policy_digest: str
    fidelity: Fidelity
    environment: Environment
    made_at: int  # unix nanoseconds
    run_ids: tuple[str, ...]
    noise: tuple[MeasureNoise, ...]

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The noise of each measure as the bound below which a difference does not matter."""
        return tuple(Bound(found.name, absolute=found.half_width) for found in self.noise)

    def of_measure(self, name: str) -> MeasureNoise | None:
        """Return the noise of a measure; None: the A/A pairs did not measure it."""
        return next((found for found in self.noise if found.name == name), None)


def measure_noise(pairs: Sequence[Pair]) -> tuple[MeasureNoise, ...]:
    """Return the noise of each named measure over A/A pairs.

    The half width is the larger of

    * the range in which the difference of a new A/A pair lies with 95 %: t(n) times the root mean
      square of the n differences (their mean is zero, since both sides are the same cell);
    * the smallest range that holds at least 95 % of the observed differences, which is the largest
      difference below 20 pairs. It counts if differences are mostly small and sometimes large.

    A measure with fewer than ``FEWEST_PAIRS`` pairs has no noise floor, nor has a count of messages
    by identity.
    """
    found = []
    for name, measure in NAMED.items():
        values = [(measure.read(pair.first), measure.read(pair.second)) for pair in pairs]
        differences = [b - a for a, b in values if a is not None and b is not None]
        if name not in IDENTITY_COUNTS and len(differences) >= FEWEST_PAIRS:
            width = half_width(differences)
            found.append(MeasureNoise(name=name, half_width=width, n=len(differences)))
    return tuple(found)


def half_width(differences: Sequence[float]) -> float:
    """Return the half width of A/A differences (see ``measure_noise``)."""
    sizes = np.abs(np.asarray(differences, dtype=np.float64))
    predicted = t_quantile(CONFIDENCE, sizes.size) * math.sqrt(float(np.mean(sizes**2)))
    observed = float(np.quantile(sizes, CONFIDENCE, method="higher"))
    return max(predicted, observed)
