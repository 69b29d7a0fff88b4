"""The result of an experiment: its cells, its gaps, and the differences between its cells."""

from __future__ import annotations

from typing import Literal

from lagbench.core.compare.noise_floor import NoiseFloor
from lagbench.core.compare.pairs import Difference
from lagbench.core.experiment.experiment import Expectation
from lagbench.core.experiment.progress import RunVerdict
from lagbench.core.measures.model import MeasureModel


class RunLine(MeasureModel):
    """One planned run in the result; ``run_id`` is None where every attempt was a gap."""

    pair: int
    cell: str
    seed: int
    run_id: str | None
    verdict: RunVerdict
    attempts: int
    hpa_sync_at_seconds: float | None  # as recorded
    values: dict[str, float | None]  # of the compared measures, by name


class CellOutcome(MeasureModel):
    """The verdicts of one cell, in runs."""

    name: str
    policy: str
    expects: Expectation
    passed: int
    failed: int
    gaps: int
    undetermined: int = 0  # results all the same (``Verdict.is_result``)

    @property
    def is_as_expected(self) -> bool:
        """Return whether every run that passed or failed did as expected, and one did."""
        expected, other = (
            (self.passed, self.failed) if self.expects == "pass" else (self.failed, self.passed)
        )
        return expected > 0 and other == 0


class CellComparison(MeasureModel):
    """One cell against the first one; a difference is second minus first."""

    first: str
    second: str
    pairs: tuple[int, ...]  # compared
    left_out: tuple[str, ...]  # the other pairs, each with its reason
    differences: tuple[Difference, ...]  # empty below two pairs

    def difference(self, name: str) -> Difference | None:
        """Return the difference of a measure; None: there is none."""
        return next((found for found in self.differences if found.name == name), None)


ShownVerdict = Literal["shown", "refuted", "undetermined"]


class ShownValue(MeasureModel):
    """A claim on a measure in every run of a cell, and its values.

    * ``shown``: every planned run has a value, and all of them are as expected;
    * ``refuted``: the value of a run is not;
    * ``undetermined``: a run is missing or did not measure it, or its precision leaves it open.
    """

    cell: str
    name: str  # of the measure
    expected: str  # in words
    values: tuple[float | None, ...]  # by planned run; None: missing, or not measured
    verdict: ShownVerdict


class ExperimentResult(MeasureModel):
    """``result.json`` of an experiment."""

    experiment: str
    title: str
    question: str
    scenario: str
    target: str
    pairs: int  # planned
    order_seed: int
    kind: Literal["comparison", "noise floor", "identity"]
    cells: tuple[CellOutcome, ...]
    runs: tuple[RunLine, ...]  # in the order in which they were made
    comparisons: tuple[CellComparison, ...]
    noise: NoiseFloor | None  # of an A/A experiment: made from it; else the last one that fits
    notes: tuple[str, ...]
    shown: tuple[ShownValue, ...] = ()  # claims that need no test

    @property
    def has_gap(self) -> bool:
        """Return whether a pair is missing in a comparison, or a claim is undetermined."""
        lacks_pairs = any(len(found.pairs) < self.pairs for found in self.comparisons)
        return lacks_pairs or any(found.verdict == "undetermined" for found in self.shown)
