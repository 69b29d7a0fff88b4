"""The values of one measure over the pairs of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lagbench.core.compare.pairs.difference import Pair
from lagbench.core.compare.pairs.interval import Interval
from lagbench.core.compare.pairs.sign_flip import sign_flip_p
from lagbench.core.measures import Measures, NamedMeasure
from lagbench.core.measures.accounting import Accounting

IDENTITY_COUNTS = frozenset(measure.name for measure in Accounting.named)
"""Counts of messages by identity: one is a failure, so they are listed and never tested."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The values of one measure: of the pairs that have both, and how often one is missing."""

    measure: NamedMeasure[Measures]
    first: tuple[float, ...]
    second: tuple[float, ...]
    missing_first: int
    missing_second: int
    left_out: int

    @classmethod
    def of(cls, measure: NamedMeasure[Measures], pairs: Sequence[Pair]) -> Sample:
        """Return the values that ``pairs`` have of ``measure``."""
        values = [(measure.read(pair.first), measure.read(pair.second)) for pair in pairs]
        known = [(a, b) for a, b in values if a is not None and b is not None]
        return cls(
            measure,
            tuple(float(a) for a, _ in known),
            tuple(float(b) for _, b in known),
            missing_first=sum(a is None for a, _ in values),
            missing_second=sum(b is None for _, b in values),
            left_out=len(values) - len(known),
        )

    @property
    def name(self) -> str:
        """The name of the measure."""
        return self.measure.name

    @property
    def differences(self) -> list[float]:
        """Second minus first of each pair."""
        return [after - before for before, after in zip(self.first, self.second, strict=True)]

    @property
    def interval(self) -> Interval | None:
        """The t interval of the mean difference; None with fewer than two pairs."""
        return Interval.of(self.differences)

    @property
    def p(self) -> float:
        """The p-value of the mean difference against zero."""
        return sign_flip_p(self.differences)

    @property
    def is_selection(self) -> bool:
        """True if one side lacks the measure more often: the pairs that have both are chosen."""
        return self.missing_first != self.missing_second

    @property
    def is_unmeasured(self) -> bool:
        """True if no run of either side has the measure."""
        pairs = len(self.first) + self.left_out
        return self.missing_first == self.missing_second == pairs
