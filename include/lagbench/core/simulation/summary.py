"""One policy over several seeds: the median and the range of each measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Any

from lagbench.core.measures import NamedMeasure
from lagbench.core.simulation.outcome import Simulation, SimulationMeasures


@dataclass(frozen=True, slots=True)
class Spread:
    """A measure over seeds; ``missing`` of them had no value and are in none of the three."""

    median: float | None
    low: float | None
    high: float | None
    missing: int

    def text(self, measure: NamedMeasure[Any]) -> str:
        """Return median and range as ``measure`` is shown; a dash if no seed had a value."""
        reported = measure.spread(self.median, self.low, self.high)
        is_partial = self.missing and self.median is not None
        return f"{reported}, {self.missing} –" if is_partial else reported


def spreads(simulations: Sequence[Simulation]) -> dict[str, Spread]:
    """Return the spread of every measure, by its name."""
    found: dict[str, Spread] = {}
    for field in fields(SimulationMeasures):
        values = [getattr(item.measures, field.name) for item in simulations]
        known = [float(value) for value in values if value is not None]
        missing = len(values) - len(known)
        if known:
            found[field.name] = Spread(median(known), min(known), max(known), missing)
        else:
            found[field.name] = Spread(None, None, None, missing)
    return found
