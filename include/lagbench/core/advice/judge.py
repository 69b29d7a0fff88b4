"""Judge the draws of a candidate by the SLOs that were asked.

Stricter than the verdict of a run where a candidate could slip through its definitions: a policy
that adds no pod although lag is due has no reaction, and breaks it; a threshold above that of the
present policy would call a backlog drained, so the candidates have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from lagbench.core.advice.job import KEPT, Place
from lagbench.core.advice.model import AskedSlo, ScenarioResult
from lagbench.core.advice.question import Question
from lagbench.core.measures.model import Reals
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_tail import spikes_of
from lagbench.core.simulation.predicted_slos import OF_SPIKES
from lagbench.core.simulation.simulation_measures import Spread

COST = "pod_minutes_in_all"
Row = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Judge:
    """The SLOs with their margins."""

    question: Question

    def values(self, rows: Sequence[Row], place: Place, limits: PolicyLimits) -> Reals:
        """Return [draw, SLO]; infinite: it never came true, which breaks every limit."""
        slos = self.question.slos
        found = np.empty((len(rows), len(slos)))
        for number, slo in enumerate(slos):
            found[:, number] = [_value(slo, row, place.scenario, limits) for row in rows]
        return found

    def real_range(self, slo: AskedSlo, values: Iterable[float]) -> tuple[float, float] | None:
        """Return where 90 % of real runs are; None: no residual is known, or a value is infinite.

        :param values: simulated, and equally likely.
        """
        error, every = self.question.error_of(slo.name), list(values)
        return None if error is None or max(every) == inf else error.interval(*every)

    def holds(self, values: Reals) -> bool:
        """Return whether each SLO holds with every draw, with the margin of its residuals."""
        for slo, column in zip(self.question.slos, values.T, strict=True):
            if column.max() > slo.limit:
                return False
            real = self.real_range(slo, column)
            if real is not None and real[1] > slo.limit:
                return False
        return True

    def margin(self, slo: AskedSlo) -> float:
        """Return by how much a real run at the limit may be above the simulation of it."""
        real = self.real_range(slo, [slo.limit])
        return 0.0 if real is None else max(0.0, real[1] - slo.limit)

    def result(self, rows: Sequence[Row], place: Place, limits: PolicyLimits) -> ScenarioResult:
        """Return what a candidate has shown at a place."""
        values, axis = self.values(rows, place, limits), self.question.slos[0]
        measures = {name: Spread.of([row[at] for row in rows]) for at, name in enumerate(KEPT)}
        first = [None if value == inf else float(value) for value in values[:, 0]]
        return ScenarioResult(
            scenario=place.scenario.name,
            draws=len(rows),
            slo_value=Spread.of(first),
            real_range=self.real_range(axis, values[:, 0].tolist()),
            pod_minutes=measures[COST],
            flips=measures["flips"],
            measures=measures,
            broken={
                slo.name: int((values[:, number] > slo.limit).sum())
                for number, slo in enumerate(self.question.slos)
            },
            holds=self.holds(values),
        )


def _value(slo: AskedSlo, row: Row, scenario: Scenario, limits: PolicyLimits) -> float:
    value = row[KEPT.index(slo.name)]
    if value is not None:
        return value
    floor = limits.started_replicas
    if slo.name in OF_SPIKES and not spikes_of(scenario, started_replicas=floor):
        return 0.0  # nothing to react to
    if slo.name == "reaction_seconds":
        held, peak = limits.scales_above_records(floor), row[KEPT.index("peak_lag_records")]
        if floor >= scenario.partitions or (held is not None and (peak or 0.0) <= held):
            return 0.0  # more pods could not help, or were not due
    return inf
