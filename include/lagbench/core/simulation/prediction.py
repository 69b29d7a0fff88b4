"""Predict a cell with the simulator: one prediction for plan, run folder and report.

When the HPA's next sync falls is not known before a run, so a prediction is the range over PHASES
of it, spread evenly over the period. The other clocks and the pods' start-up times are drawn again
for each. Afterwards the run's own phase is known: with it, and nothing else from the run, the range
is that of the other draws alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lagbench.core.measures import NAMED, MeasureModel, Measures, NamedMeasure
from lagbench.core.policy import CheckedPolicy
from lagbench.core.scenario import Scenario
from lagbench.core.simulation.environment import SimulatedEnvironment
from lagbench.core.simulation.simulate import simulate
from lagbench.core.simulation.summary import Spread, spreads

PHASES = 16


# Measures of the registry that the simulator has, too, by the same names.
PREDICTED = ("peak_lag_records", "reaction_seconds", "drain_seconds", "max_replicas")


class PredictedRange(MeasureModel):
    """Over the simulated phases; ``missing`` of them had no value, all of them: None."""

    median: float | None
    low: float | None
    high: float | None
    missing: int = 0

    def text(self, measure: NamedMeasure[Measures]) -> str:
        """Return median and range as ``measure`` is shown; a dash if no phase had a value."""
        reported = measure.spread(self.median, self.low, self.high)
        is_partial = self.missing and self.median is not None
        return reported + (f", in {self.missing} phases none" if is_partial else "")


class Prediction(MeasureModel):
    """The simulator's prediction of a cell, by the names of PREDICTED."""

    phases: int
    hpa_sync_at_seconds: float | None  # from the stream's start, as recorded; None: every phase
    measures: dict[str, PredictedRange]
    settled_seconds: float  # the last change of replicas in any phase, from the stream's start
    watched_seconds: float  # from the stream's start


class RunPrediction(MeasureModel):
    """The prediction of a run: ``prediction.json``."""

    before: Prediction | None  # made before anything started
    before_reason: str = ""  # why there is none
    after: Prediction | None = None  # with the run's own phase, and nothing else of the run
    after_reason: str = ""


class Residual(MeasureModel):
    """A measure as predicted and as measured; the residual is measured minus predicted (median)."""

    name: str
    title: str
    unit: str
    predicted: PredictedRange
    measured: float | None
    residual: float | None

    @property
    def heading(self) -> str:
        """The title with the unit."""
        return NAMED[self.name].heading

    @property
    def predicted_text(self) -> str:
        """Median and range, without the unit."""
        return self.predicted.text(NAMED[self.name])

    @property
    def measured_text(self) -> str:
        """The measured value, without the unit."""
        return NAMED[self.name].number(self.measured)

    @property
    def residual_text(self) -> str:
        """The residual with its sign, without the unit."""
        sign = "+" if (self.residual or 0) > 0 else ""
        return f"{sign}{NAMED[self.name].number(self.residual)}"


def predict(
    scenario: Scenario,
    policy: CheckedPolicy,
    *,
    hpa_sync_at_seconds: float | None = None,
    environment: SimulatedEnvironment | None = None,
    swapped: Mapping[int, CheckedPolicy] | None = None,
) -> Prediction:
    """Return the prediction for a cell; ``hpa_sync_at_seconds`` is the one known phase.

    The scenario's own fixed phase is one, too.

    :raises WrongInput: the simulator cannot play the policy.
    """
    around = _watched(environment or SimulatedEnvironment(), scenario)
    if hpa_sync_at_seconds is None:
        hpa_sync_at_seconds = scenario.hpa_sync_at_seconds
    period = around.hpa_sync_seconds
    phases = [
        period * number / PHASES if hpa_sync_at_seconds is None else hpa_sync_at_seconds
        for number in range(PHASES)
    ]
    found = [
        simulate(
            scenario,
            policy,
            environment=replace(around, hpa_sync_at_seconds=phase),
            draw=number,
            swapped=swapped,
        )
        for number, phase in enumerate(phases)
    ]
    ranges = spreads(found)
    return Prediction(
        phases=PHASES,
        hpa_sync_at_seconds=hpa_sync_at_seconds,
        measures={name: _range(ranges[name]) for name in PREDICTED},
        settled_seconds=max(one.measures.settled_seconds for one in found),
        watched_seconds=found[0].measures.watched_seconds,
    )


def _watched(around: SimulatedEnvironment, scenario: Scenario) -> SimulatedEnvironment:
    """Return ``around``, watched as long as a run waits for a drain that may take longer."""
    waits = scenario.timeouts
    if waits.drain_seconds <= around.tail_seconds:
        return around
    return replace(around, tail_seconds=waits.drain_seconds + waits.settle_seconds)


def residuals(prediction: Prediction, measures: Measures) -> tuple[Residual, ...]:
    """Return every predicted measure beside the measured one."""
    found = []
    for name, predicted in prediction.measures.items():
        of = NAMED[name]
        measured, middle = of.read(measures), predicted.median
        found.append(
            Residual(
                name=of.name,
                title=of.title,
                unit=of.unit,
                predicted=predicted,
                measured=measured,
                residual=None if middle is None or measured is None else measured - middle,
            )
        )
    return tuple(found)


def _range(of: Spread) -> PredictedRange:
    return PredictedRange(median=of.median, low=of.low, high=of.high, missing=of.missing)
