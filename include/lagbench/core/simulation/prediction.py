"""Predict a cell with the simulator: one prediction for plan, run folder and report.

When the HPA's next sync falls is not known before a run, so a prediction is drawn over PHASES of
it, spread evenly over the period. The other clocks and the pods' start-up times are drawn again for
each. Afterwards the run's own phase is known: it is drawn close to the recorded one, so that a sync
next to the instant at which lag crosses a threshold falls on both sides. The printed range is that
of 90 % of real runs: of the draws and of the simulator's error (model_error).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from lagbench.core.kubernetes_values import HPA_SYNC_SECONDS
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import MeasureModel
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_tail import spikes_of
from lagbench.core.simulation.model_error import RANGE_SHARE, error_of
from lagbench.core.simulation.predicted_slos import predicted_slos
from lagbench.core.simulation.simulate import simulate
from lagbench.core.simulation.simulated_world import SimulatedEnvironment
from lagbench.core.simulation.simulation_measures import Simulation, Spread, spreads
from lagbench.core.verdict.slo import SloResult

PHASES = 16
PHASE_ERROR_SECONDS = 0.5
"""The most by which a draw's sync differs from the recorded one; of half by a quarter of it."""
PREDICTED = ("peak_lag_records", "reaction_seconds", "drain_seconds", "max_replicas")
"""Measures of the registry that the simulator has, too, by the same names."""
AROUND_SECONDS = 63
"""On 2 cores, a whole command less the time from the stream's start to the last change of replicas:
44 s of hello (92 s in total), 63 s of a run of 529 s; 98 s on the median of the kept runs, which
are older and often ran beside other work. It is bench up, Airflow, pipeline and report.
"""
_MOST_POINTS = 300
_ENDED_SHARE = 0.01
"""Of the highest lag: a course has ended when the lag stays below."""
_AFTER_SECONDS = 10.0
ACCOUNTING_SECONDS_PER_MESSAGE = 9e-6
"""Landing and accounting of 20 million messages took 181 s on two cores (docs/spark.md)."""


class Course(MeasureModel):
    """Lag and replicas of one simulated run, at even steps from the stream's start."""

    every_seconds: float
    lag: tuple[int, ...]
    replicas: tuple[int, ...]


class Prediction(MeasureModel):
    """The simulator's prediction of a cell, by the names of PREDICTED."""

    phases: int
    hpa_sync_at_seconds: float | None  # from the stream's start, as recorded; None: every phase
    measures: dict[str, Spread]
    settled_seconds: float  # the last change of replicas, median, from the stream's start
    watched_seconds: float  # from the stream's start
    course: Course | None = None  # of the draw with the median peak lag; None: older predictions
    spike_replicas: Spread | None = None  # that the first spike meets; None: older predictions
    range_share: float | None = None  # of real runs that low to high holds; None: of the draws all
    slos: tuple[SloResult, ...] = ()  # those with a limit that it can judge; none: also older


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
    predicted: Spread
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
    def is_in_range(self) -> bool:
        """Return whether it was measured within the range; without one it was not."""
        low, high = self.predicted.low, self.predicted.high
        if low is None or high is None or self.measured is None:
            return False
        return low <= self.measured <= high

    @property
    def measured_text(self) -> str:
        """The measured value, without the unit."""
        return NAMED[self.name].number(self.measured)

    @property
    def residual_text(self) -> str:
        """The residual with its sign, without the unit."""
        return NAMED[self.name].signed(self.residual)


def predict(
    scenario: Scenario,
    policy: Policy,
    *,
    hpa_sync_at_seconds: float | None = None,
    environment: SimulatedEnvironment | None = None,
    swapped: Mapping[int, Policy] | None = None,
    phases: int = PHASES,
) -> Prediction:
    """Return the prediction for a cell; ``hpa_sync_at_seconds`` is the one known phase."""
    known = scenario.hpa_sync_at_seconds if hpa_sync_at_seconds is None else hpa_sync_at_seconds
    found = draws(
        scenario,
        policy,
        hpa_sync_at_seconds=known,
        environment=environment,
        swapped=swapped,
        phases=phases,
    )
    ranges = of_real_runs(found)
    return Prediction(
        phases=phases,
        hpa_sync_at_seconds=known,
        range_share=RANGE_SHARE,
        measures={name: ranges[name] for name in PREDICTED},
        settled_seconds=float(np.median([one.measures.settled_seconds for one in found])),
        watched_seconds=found[0].measures.watched_seconds,
        spike_replicas=ranges["spike_replicas"],
        slos=predicted_slos(scenario, policy.limits, ranges),
        course=_course(sorted(found, key=lambda one: one.measures.peak_lag_records)[phases // 2]),
    )


def draws(
    scenario: Scenario,
    policy: Policy,
    *,
    hpa_sync_at_seconds: float | None,
    environment: SimulatedEnvironment | None = None,
    swapped: Mapping[int, Policy] | None = None,
    phases: int = PHASES,
) -> list[Simulation]:
    """Return simulations of a cell over the HPA's phases, or at the known one."""
    around, waits = environment or SimulatedEnvironment(), scenario.timeouts
    if waits.drain_seconds > around.tail_seconds:  # watched as long as a run waits
        around = replace(around, tail_seconds=waits.drain_seconds + waits.settle_seconds)
    found = []
    for number in range(phases):
        if hpa_sync_at_seconds is None:
            phase = around.hpa_sync_seconds * number / phases
        else:
            off = 2 * number / (phases - 1) - 1 if phases > 1 else 0.0
            phase = hpa_sync_at_seconds + PHASE_ERROR_SECONDS * off * abs(off)
        at_phase = replace(around, hpa_sync_at_seconds=phase)
        found.append(simulate(scenario, policy, environment=at_phase, draw=number, swapped=swapped))
    return found


def of_real_runs(found: Sequence[Simulation]) -> dict[str, Spread]:
    """Return the spread of each measure; of those whose error is known the range of real runs."""
    ranges = spreads(found)
    for name, spread in ranges.items():
        error = error_of(name)
        if error is not None and spread.median is not None:
            values = [getattr(one.measures, name) for one in found]
            low, high = error.interval(*(value for value in values if value is not None))
            ranges[name] = replace(spread, low=low, high=high)
    return ranges


def _course(of: Simulation) -> Course | None:
    """Return what a chart shows of a simulation: until lag and replicas have come down."""
    (instants, totals), line = of.total_lag, of.timeline
    if not line.second.size:
        return None
    last_lag = instants[totals > _ENDED_SHARE * totals.max()].max(initial=0.0)
    end = max(of.measures.settled_seconds, last_lag) + _AFTER_SECONDS
    end = min(end, of.measures.watched_seconds)
    every = max(1.0, float(ceil(end / _MOST_POINTS)))
    seconds = np.arange(0.0, end, every)
    rows = np.maximum(np.searchsorted(line.second, seconds, side="right") - 1, 0)
    return Course(
        every_seconds=every,
        lag=tuple(np.rint(np.interp(seconds, instants, totals)).astype(int).tolist()),
        replicas=tuple(line.spec_replicas[rows].tolist()),
    )


def residuals(prediction: Prediction, measures: Measures) -> tuple[Residual, ...]:
    """Return every predicted measure beside the measured one."""
    return tuple(residual_of(name, one, measures) for name, one in prediction.measures.items())


def residual_of(name: str, predicted: Spread, measures: Measures) -> Residual:
    """Return one predicted measure beside the measured one."""
    of = NAMED[name]
    measured, middle = of.read(measures), predicted.median
    return Residual(
        name=of.name,
        title=of.title,
        unit=of.unit,
        predicted=predicted,
        measured=measured,
        residual=None if middle is None or measured is None else measured - middle,
    )


def expected_run_seconds(
    scenario: Scenario, predicted: Prediction, *, started_replicas: int
) -> float:
    """Return how long the run takes; its tail ends with the last change of replicas.

    It does not end before the lag is drained, or before the wait for that has ended. A stream
    that waits for its phase of the HPA's sync starts up to a period later.
    """
    load = offered_load(scenario.profile)
    ended = min(predicted.settled_seconds, load.duration_seconds + scenario.timeouts.settle_seconds)
    if spikes := spikes_of(scenario, started_replicas=started_replicas):
        drain, longest = predicted.measures["drain_seconds"].median, scenario.timeouts.drain_seconds
        drained = spikes[-1].end_seconds + (longest if drain is None else min(drain, longest))
        ended = max(ended, drained)
    waits = 0.0 if scenario.hpa_sync_at_seconds is None else HPA_SYNC_SECONDS
    in_tail = load.base_rate * max(0.0, ended - load.duration_seconds)
    accounting = ACCOUNTING_SECONDS_PER_MESSAGE * (load.total + in_tail)
    return ended + AROUND_SECONDS + waits + accounting
