"""A claim that needs no test: what a measure is to be in every run of a cell, or in every step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from lagbench.core.compare.comparable import ComparedRun
from lagbench.core.compare.experiment import ExpectedValue
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import Interval, MeasureModel, NamedMeasure

ShownVerdict = Literal["shown", "refuted", "undetermined"]


class StepCount(MeasureModel):
    """The scale steps that are as a claim expects, those that are not, and those that are open.

    A run that is missing, or that made no step, counts as one that is open.
    """

    met: int
    missed: int
    undetermined: int


class ShownValue(MeasureModel):
    """A claim on a measure in every run of a cell, and its values.

    Of a measure that scale steps have every step must be as expected, not their mean.

    * ``shown``: every planned run has a value, and all of them are as expected;
    * ``refuted``: the value of a run, or of a step, is not;
    * ``undetermined``: a run is missing or did not measure it, or its precision leaves it open.
    """

    cell: str
    name: str  # of the measure
    expected: str  # in words
    values: tuple[float | None, ...]  # by planned run; None: missing, or not measured
    verdict: ShownVerdict
    steps: StepCount | None = None  # None: it is no measure of scale steps
    limits: ExpectedValue | None = None  # ``expected`` as numbers; None: an older result


def shown_value(
    cell: str, name: str, expected: ExpectedValue, runs: Iterable[ComparedRun | None]
) -> ShownValue:
    """Return a claim on the planned runs of a cell; None: the run is missing."""
    measure, values, holds = NAMED[name], list[float | None](), list[bool | None]()
    for kept in runs:
        value = None if kept is None else measure.read(kept.measures)
        values.append(value)
        for bounds in [None] if kept is None else _bounds(measure, kept.measures, value):
            holds.append(None if bounds is None else expected.holds(*bounds))
    verdict: ShownVerdict = "undetermined" if None in holds else "shown"
    count = StepCount(
        met=holds.count(True), missed=holds.count(False), undetermined=holds.count(None)
    )
    return ShownValue(
        cell=cell,
        name=name,
        expected=expected.text,
        values=tuple(values),
        verdict="refuted" if False in holds else verdict,
        steps=None if measure.steps is None else count,
        limits=expected,
    )


def _bounds(
    measure: NamedMeasure, measures: Measures, value: float | None
) -> Sequence[Interval | None]:
    """Return the bounds of the value, or of each step's; None: nothing is known of it."""
    if measure.steps is not None:
        return [step.bounds for step in measure.steps(measures)] or [None]
    if value is None:
        return [None]
    # Without an interval of its own a value is exact; of one it is None if a clock is not bounded.
    return [(value, value) if measure.interval is None else measure.interval(measures)]
