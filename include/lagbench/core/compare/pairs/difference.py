"""The result of a comparison by pairs: one measure's difference, and its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lagbench.core.measures import NAMED, MeasureModel, Measures

DifferenceVerdict = Literal["differs", "equivalent", "undetermined", "listed"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs with the same seed, back to back: one of each side."""

    first: Measures
    second: Measures


class Difference(MeasureModel):
    """One measure over all pairs; a difference is second minus first, so below zero is better.

    * ``differs``: the 95 % interval lies wholly beyond the bound, on one side, and the sign-flip
      test rejects "no difference" at the look's alpha, with Holm's correction.
    * ``equivalent``: the 95 % interval lies inside the bound.
    * ``undetermined``: neither; ``pairs_needed`` more pairs would decide, if mean and spread stay.
    * ``listed``: not tested, because it counts messages by identity (one is a failure), because it
      has no bound, or because no run measured it.

    ``None`` means that there are too few values.
    """

    name: str
    title: str
    unit: str
    n: int  # pairs in which both runs have a value
    left_out: int  # pairs in which a value is missing
    mean_first: float | None
    mean_second: float | None
    difference: float | None  # mean of second minus first
    low: float | None  # 95 % interval of the difference (paired t)
    high: float | None
    p: float | None  # two-sided sign-flip test against no difference
    p_floor: float | None  # the lowest p that these pairs could reach
    holm_p: float | None  # p with Holm's correction for all tested measures
    alpha: float | None  # holm_p must reach it at this look
    bound: float | None  # a difference inside +- bound does not matter
    verdict: DifferenceVerdict
    pairs_needed: int | None  # further pairs; None: decided, or no number of pairs would decide
    text: str

    @property
    def heading(self) -> str:
        """The title with the unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    def number(self, value: float | None) -> str:
        """Return ``value`` without the unit: a mean of counts has a decimal unless it is whole."""
        measure = NAMED[self.name]
        if value is None or value == round(value) or measure.digits:
            return measure.number(value)
        return f"{value:,.1f}"

    def change(self, value: float | None) -> str:
        """Return ``value`` as a difference, with its sign."""
        text = self.number(value)
        return f"+{text}" if value is not None and value > 0 else text
