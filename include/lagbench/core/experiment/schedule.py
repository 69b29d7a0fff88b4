"""Draw the order of an experiment's runs.

The order is random, because a machine warms up, fills its disk and has other users: a fixed order
would add that to the difference of the cells. Each cell comes first in as many pairs as any other.
A seed draws it, so the order of a file is always the same, and it is recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from lagbench.core.experiment.experiment import Experiment, ExperimentCell, allowed_pairs
from lagbench.core.kubernetes.control_loops import HPA_SYNC_SECONDS
from lagbench.errors import WrongInput

Item = TypeVar("Item")


class PlannedRun(BaseModel):
    """One run of the schedule."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pair: int  # from 1
    cell: str
    seed: int
    hpa_sync_at_seconds: float | None  # second of the stream; None: as it comes

    @property
    def key(self) -> str:
        """Return the name of the run inside its experiment."""
        return f"pair_{self.pair}_{self.cell}"

    def overrides(self, experiment: Experiment) -> dict[str, str]:
        """Return the run's settings as text, by dotted key."""
        found = experiment.overrides_of(_cell(experiment, self.cell)) | {"seed": str(self.seed)}
        if self.hpa_sync_at_seconds is not None:
            found["hpa_sync_at_seconds"] = f"{self.hpa_sync_at_seconds:g}"
        return found

    def policy(self, experiment: Experiment) -> str | None:
        """Return the run's policy; None: the scenario's own."""
        return _cell(experiment, self.cell).policy


class Schedule(BaseModel):
    """All runs of one execution, in their order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pairs: int
    order_seed: int
    runs: tuple[PlannedRun, ...]


def draw_schedule(
    experiment: Experiment, *, pairs: int | None = None, has_known_hpa: bool = True
) -> Schedule:
    """Return the runs in their order; runs of a pair follow each other.

    The phases of the HPA's sync are spread evenly over its period, and drawn for the pairs.

    :param pairs: None: as many as the file says.
    :param has_known_hpa: False on a cluster, where the phase cannot be fixed.
    :raises WrongInput: the number of pairs is not allowed, or there are not enough seeds.
    """
    count = experiment.pairs if pairs is None else pairs
    seeds = experiment.seeds or tuple(range(1, count + 1))
    try:
        allowed_pairs(count, experiment.kind)
    except ValueError as error:
        raise _wrong_pairs(experiment, count, str(error)) from error
    if len(seeds) < count:
        raise _wrong_pairs(experiment, count, f"at most {len(seeds)}: the file has no more seeds")
    numbers = range(1, count + 1)
    drawn = experiment.order_seed
    ranks = _shuffled(numbers, drawn, "phase")
    firsts = _shuffled([number % len(experiment.cells) for number in numbers], drawn, "first")
    is_fixed = experiment.phase == "fixed" and has_known_hpa
    runs = []
    for number in _shuffled(numbers, drawn, "pair"):
        phase = HPA_SYNC_SECONDS * (ranks[number - 1] - 0.5) / count if is_fixed else None
        names = [cell.name for cell in experiment.cells]
        first = names[firsts[number - 1]]
        others = _shuffled([name for name in names if name != first], drawn, f"rest {number}")
        runs += [
            PlannedRun(pair=number, cell=name, seed=seeds[number - 1], hpa_sync_at_seconds=phase)
            for name in (first, *others)
        ]
    return Schedule(pairs=count, order_seed=drawn, runs=tuple(runs))


def _shuffled(items: Sequence[Item], seed: int, purpose: str) -> list[Item]:
    """Return ``items`` in an order that seed and purpose determine, on every Python the same."""

    def rank(place: int) -> bytes:
        return hashlib.sha256(f"{seed} {purpose} {place}".encode()).digest()

    return [items[place] for place in sorted(range(len(items)), key=rank)]


def _cell(experiment: Experiment, name: str) -> ExperimentCell:
    return next(cell for cell in experiment.cells if cell.name == name)


def _wrong_pairs(experiment: Experiment, pairs: int, allowed: str) -> WrongInput:
    return WrongInput(
        where=f"experiment {experiment.name}", field="pairs", value=pairs, allowed=allowed
    )
