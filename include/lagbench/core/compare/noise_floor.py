"""The noise floor of a cell: how far two runs of the same cell differ by chance.

It comes from an A/A set: pairs of runs with the same policy, load, machine and versions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from lagbench.core.compare.cell_identity import Environment
from lagbench.core.compare.comparable import ComparedRun
from lagbench.core.compare.compare import BOUNDS, Bound
from lagbench.core.compare.pair_statistics import CONFIDENCE, t_quantile
from lagbench.core.compare.pairs import IDENTITY_COUNTS, Pair
from lagbench.core.measures.measures import NAMED
from lagbench.core.measures.model import Fidelity, MeasureModel
from lagbench.errors import WrongInput

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
    seeds: tuple[int, ...]
    load: str  # digest of scenario, target and fidelity (``ComparedRun.load``)
    policy_digest: str | None  # of the policy's content
    fidelity: Fidelity
    environment: Environment
    made_at: int  # unix nanoseconds
    run_ids: tuple[str, ...]
    noise: tuple[MeasureNoise, ...]

    @property
    def text(self) -> str:
        """The cell and the pairs that it comes from."""
        return f"A/A of {self.scenario} with {self.policy}, {len(self.run_ids) // 2} pairs"

    @property
    def widths(self) -> dict[str, float]:
        """The half width of each measure that the A/A pairs measured, by its name."""
        return {found.name: found.half_width for found in self.noise}


def bounds_of(
    floor: NoiseFloor | None, measures: Collection[str] | None = None, stated: Sequence[Bound] = ()
) -> list[Bound]:
    """Return the bound of each tested measure, of which there is one.

    It is the one that is stated here, else the noise floor, else that of the nightly gate.

    :param measures: the measures to test; None: those that the gate bounds, or that are stated.
    :raises WrongInput: a measure that has no bound, or that is never tested.
    """
    gate = {bound.name: bound for bound in BOUNDS if bound.name not in IDENTITY_COUNTS}
    given = {bound.name: bound for bound in stated}
    known = gate | given
    tested = [name for name in NAMED if name not in IDENTITY_COUNTS]
    for names, allowed in ((given, tested), (measures or (), list(known))):
        for name in names:
            if name not in allowed:
                raise WrongInput(
                    where="compare", field="measure", value=name, allowed=", ".join(allowed)
                )
    names = [name for name in known if measures is None or name in measures]
    noise = {} if floor is None else floor.widths
    return [
        Bound(name, absolute=noise[name]) if name in noise and name not in given else known[name]
        for name in names
    ]


def closest_floor(
    floors: Iterable[NoiseFloor], first: ComparedRun, second: ComparedRun
) -> NoiseFloor | None:
    """Return the floor for a comparison: of the first side's policy, of the second's, of any other.

    It is of the same load, machine and versions as the first; of several, the newest counts.
    """
    fitting = [
        floor
        for floor in floors
        if floor.load == first.load and not floor.environment.changes(first.environment)
    ]
    policies = [second.policy, first.policy]

    def rank(floor: NoiseFloor) -> tuple[int, int]:
        known = policies.index(floor.policy_digest) if floor.policy_digest in policies else -1
        return known, floor.made_at

    return max(fitting, key=rank, default=None)


def noise_floor(pairs: Sequence[tuple[ComparedRun, ComparedRun]], *, now: int) -> NoiseFloor:
    """Return the noise floor of the cell whose A/A pairs these are, measured at ``now`` (unix ns).

    :raises WrongInput: there are fewer than ``FEWEST_PAIRS`` pairs.
    """
    if len(pairs) < FEWEST_PAIRS:
        raise WrongInput(
            where="noise floor", field="pairs", value=len(pairs), allowed=f"{FEWEST_PAIRS} or more"
        )
    first = pairs[0][0]
    return NoiseFloor(
        scenario=first.scenario.name,
        policy=first.measures.policy,
        seeds=tuple(pair[0].measures.seed for pair in pairs),
        load=first.load,
        policy_digest=first.policy,
        fidelity=first.measures.fidelity,
        environment=first.environment,
        made_at=now,
        run_ids=tuple(run.run_id for pair in pairs for run in pair),
        noise=measure_noise([Pair(before.measures, after.measures) for before, after in pairs]),
    )


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
