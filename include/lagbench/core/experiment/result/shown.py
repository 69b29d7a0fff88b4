"""Judge what every run of a cell must show: claims on identity and assignment, without a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lagbench.core.compare import ComparedRun
from lagbench.core.experiment.expected_value import ExpectedValue
from lagbench.core.experiment.experiment import Experiment
from lagbench.core.experiment.result.experiment_result import ShownValue, ShownVerdict
from lagbench.core.experiment.schedule import Schedule
from lagbench.core.measures import NAMED, Measures


def shown_values(
    experiment: Experiment, schedule: Schedule, runs: Mapping[tuple[int, str], ComparedRun]
) -> tuple[ShownValue, ...]:
    """Return each claim of the cells with its verdict.

    :param runs: the measured runs by pair and cell; a gap is not in it.
    """
    return tuple(
        _shown(cell.name, name, expected, [runs.get(key) for key in _runs_of(schedule, cell.name)])
        for cell in experiment.cells
        for name, expected in cell.shows.items()
    )


def _runs_of(schedule: Schedule, cell: str) -> list[tuple[int, str]]:
    return sorted((run.pair, run.cell) for run in schedule.runs if run.cell == cell)


def _shown(
    cell: str, name: str, expected: ExpectedValue, runs: Sequence[ComparedRun | None]
) -> ShownValue:
    holds = [None if run is None else _holds(name, expected, run.measures) for run in runs]
    verdict: ShownVerdict = "shown"
    if False in holds:
        verdict = "refuted"
    elif None in holds:
        verdict = "undetermined"
    return ShownValue(
        cell=cell,
        name=name,
        expected=expected.text,
        values=tuple(None if run is None else NAMED[name].read(run.measures) for run in runs),
        verdict=verdict,
    )


def _holds(name: str, expected: ExpectedValue, measures: Measures) -> bool | None:
    measure = NAMED[name]
    value = measure.read(measures)
    if value is None:
        return None
    if measure.interval is None:
        return expected.holds(value, value)
    bounds = measure.interval(measures)
    return None if bounds is None else expected.holds(*bounds)  # None: it is not bounded
