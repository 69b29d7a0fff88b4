"""Predict the pairs of an experiment with the simulator: its seeds, its phases, its measures.

A prediction decides nothing. Before hours are spent it shows whether the planned pairs could.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lagbench.core.compare.pair_statistics import Interval, sign_flip_p
from lagbench.core.experiment.experiment import Experiment
from lagbench.core.experiment.result.judge import bounds_of, measured_names
from lagbench.core.experiment.schedule import Schedule
from lagbench.core.measures.registry import NAMED
from lagbench.core.significance import SIGNIFICANCE
from lagbench.core.simulation.simulation_measures import SimulationMeasures

Simulated = Mapping[tuple[int, str], SimulationMeasures]
"""The simulated runs by pair and cell."""
PREDICTED_HEADINGS = ("measure", "cell", "in each pair", "difference (95 % interval)", "bound")


@dataclass(frozen=True, slots=True)
class PredictedValues:
    """A measure of one cell in each pair, and its difference to the first cell."""

    name: str
    cell: str
    values: tuple[float | None, ...]
    difference: Interval | None  # None: the first cell, a shown measure, or too few pairs
    outlook: str  # what the difference would show, or what the file expects of each value

    @property
    def row(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        measure, found = NAMED[self.name], self.difference
        values = ", ".join(measure.number(value) for value in self.values)
        if found is None:
            return (measure.heading, self.cell, values, "", self.outlook)
        mean, low, high = (f"{value:+,.1f}" for value in (found.mean, found.low, found.high))
        return (measure.heading, self.cell, values, f"{mean} ({low} to {high})", self.outlook)


def predicted_values(
    experiment: Experiment, schedule: Schedule, simulated: Simulated
) -> tuple[PredictedValues, ...]:
    """Return the compared and shown measures that the simulator has, for each cell."""
    return tuple(
        found
        for name in measured_names(experiment)
        if name in SimulationMeasures.__slots__
        for found in _of_measure(name, experiment, schedule, simulated)
    )


def not_simulated(experiment: Experiment) -> str | None:
    """Return which compared or shown measures the simulator does not have; None: it has all."""
    missing = [
        NAMED[name].title
        for name in measured_names(experiment)
        if name not in SimulationMeasures.__slots__
    ]
    return f"not simulated: {', '.join(missing)}" if missing else None


def _of_measure(
    name: str, experiment: Experiment, schedule: Schedule, simulated: Simulated
) -> Iterator[PredictedValues]:
    bound = next((one for one in bounds_of(experiment) if one.name == name), None)
    pairs = range(1, schedule.pairs + 1)
    first = [getattr(simulated[pair, experiment.cells[0].name], name) for pair in pairs]
    for place, cell in enumerate(experiment.cells):
        values = [getattr(simulated[pair, cell.name], name) for pair in pairs]
        both = zip(first, values, strict=True)
        known = [(a, b) for a, b in both if a is not None and b is not None]
        differences = [b - a for a, b in known]
        found = Interval.of(differences) if place and bound is not None else None
        expected = cell.shows.get(name)
        outlook = "" if expected is None else f"expected {expected.text}"
        if found is not None and bound is not None:
            width = bound.width(sum(a for a, _ in known) / len(known))
            outlook = _outlook(differences, found, width)
        yield PredictedValues(name, cell.name, tuple(values), found, outlook)


def _outlook(differences: Sequence[float], found: Interval, bound: float) -> str:
    """Return what pairs with these differences would show, if one measure is compared."""
    if found.is_inside(bound):
        return f"within {bound:g}"
    is_shown = found.is_beyond(bound) and sign_flip_p(differences) <= SIGNIFICANCE
    return f"beyond {bound:g}" if is_shown else f"undetermined at {bound:g}"
