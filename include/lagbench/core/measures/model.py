"""Base of every model in ``measures.json`` and ``verdict.json``, and the numbers that it names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

NANOSECONDS = 1_000_000_000
"""Nanoseconds in a second; every ``…_at`` is unix nanoseconds."""

Fidelity = Literal["simulated", "processes", "kubernetes"]
Of = TypeVar("Of")
Interval = tuple[float, float]
_UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class NamedMeasure(Generic[Of]):
    """A number of a model, for SLOs, gate, prediction, simulator, report and terminal.

    For every named measure, lower is better.
    """

    name: str
    title: str
    unit: str  # empty: a plain count that the title explains
    digits: int  # decimals that are shown
    read: Callable[[Of], float | None]  # None: not measured
    interval: Callable[[Of], Interval | None] | None = None
    """Bounds of the true value; None: they depend on the episode, or the value is exact."""
    part: str = ""  # the field of ``Measures`` that has it; set where they are collected

    @property
    def heading(self) -> str:
        """Return the title with the unit, for a table whose cells have no unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    def number(self, value: float | None) -> str:
        """Return ``value`` without the unit; a dash if it was not measured."""
        return _UNKNOWN if value is None else f"{value:,.{self.digits}f}"

    def text(self, value: float | None) -> str:
        """Return ``value`` with the unit; a dash if it was not measured."""
        return _UNKNOWN if value is None else f"{self.number(value)} {self.unit}".strip()

    def spread(self, median: float | None, low: float | None, high: float | None) -> str:
        """Return the median and, where it differs, the range; a dash without a value."""
        bounds = (self.number(low), self.number(high))
        between = f" ({bounds[0]} to {bounds[1]})" if bounds[0] != bounds[1] else ""
        return f"{self.number(median)}{between}"


class MeasureModel(BaseModel):
    """Frozen, without unknown keys; ``None`` means that the number was not measured, never zero."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    named: ClassVar[tuple[NamedMeasure[Any], ...]] = ()
