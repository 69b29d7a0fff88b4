"""Base of every model in ``measures.json`` and ``verdict.json``, and the numbers that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from math import inf
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from lagbench.core.kubernetes_values import NS_PER_SECOND

NANOSECONDS = NS_PER_SECOND
"""Nanoseconds in a second; every ``…_at`` is unix nanoseconds."""
Fidelity = Literal["simulated", "processes", "kubernetes", "unknown"]
"""An observation without a Deployment does not know what ran the pods."""
Interval = tuple[float, float]
_UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class NamedMeasure:
    """A number of a model, for SLOs, gate, prediction, simulator, report and terminal.

    Of each that the gate compares, lower is better.
    """

    name: str
    title: str
    unit: str  # empty: a plain count that the title explains
    digits: int  # decimals that are shown
    read: Callable[[Any], float | None]  # of whole measures; None: not measured
    interval: Callable[[Any], Interval | None] | None = None
    """Bounds of the true value; None: they depend on the episode, or the value is exact."""
    part: str = ""  # the field of ``Measures`` that has it
    steps: Callable[[Any], tuple[StepValue, ...]] | None = None
    """The value of each scale step, in their order; None: scale steps have none."""

    @property
    def heading(self) -> str:
        """Return the title with the unit, for a table whose cells have no unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    def number(self, value: float | None) -> str:
        """Return ``value`` without the unit; a dash if it was not measured."""
        return _with_decimals(value, self.digits)

    def signed(self, value: float | None) -> str:
        """Return a difference without the unit, with its sign."""
        return f"{'+' if (value or 0) > 0 else ''}{self.number(value)}"

    def text(self, value: float | None, limit: float | None = None) -> str:
        """Return ``value`` with the unit, on its side of ``limit``; a dash: not measured."""
        if value is None:
            return _UNKNOWN
        shown = _with_decimals(value, self._decimals(value, limit))
        return f"{shown} {self.unit}".strip()

    def numbers(
        self, value: float | None, limit: float | None, *more: float | None
    ) -> tuple[str, ...]:
        """Return all with the same decimals, which show on which side of the limit the value is."""
        decimals = self._decimals(value, limit)
        return tuple(_with_decimals(one, decimals) for one in (value, limit, *more))

    def _decimals(self, value: float | None, limit: float | None) -> int:
        if value is None or limit is None:
            return self.digits
        return _decimals_beside(value, limit, self.digits)

    def spread(self, median: float | None, low: float | None, high: float | None) -> str:
        """Return the median and, where it differs, the range; a dash without a value."""
        bounds = (self.number(low), self.number(high))
        between = f" ({bounds[0]} to {bounds[1]})" if bounds[0] != bounds[1] else ""
        return f"{self.number(median)}{between}"


def exact_text(value: float) -> str:
    """Return all digits of ``value``, without an exponent."""
    return f"{Decimal(repr(float(value))).normalize():f}"


def short_text(value: float, figures: int) -> str:
    """Return ``value`` with ``figures`` figures, without an exponent; a whole part stays whole."""
    return _stripped(value, _fewest(value, figures))


def short_beside(value: float, limit: float, figures: int) -> tuple[str, str]:
    """Return both as short texts, with decimals that show on which side of it the value is."""
    decimals = _decimals_beside(value, limit, _fewest(value, figures))
    return _stripped(value, decimals), _stripped(limit, decimals)


def _fewest(value: float, figures: int) -> int:
    return max(0, figures - 1 - Decimal(value).adjusted())


def _stripped(value: float, decimals: int) -> str:
    shown = f"{value:.{decimals}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def _with_decimals(value: float | None, decimals: int) -> str:
    return _UNKNOWN if value is None else f"{value:,.{decimals}f}"


def _decimals_beside(value: float, limit: float, fewest: int) -> int:
    """Return the decimals that show whether ``value`` is above ``limit``, whole or rounded."""
    is_above = value > limit
    return next(
        decimals
        for decimals in count(fewest)
        if (round(value, decimals) > round(limit, decimals)) is is_above
        and (round(value, decimals) > limit) is is_above
    )


class MeasureModel(BaseModel):
    """Frozen, without unknown keys; ``None`` means that the number was not measured, never zero."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class StepValue(MeasureModel):
    """A number of one scale step as it was read, and the bounds of the true one."""

    value: float | None = None  # None: not measured
    low: float | None = None  # None: nothing is known of it
    high: float | None = None  # None: no end is known

    @property
    def bounds(self) -> Interval | None:
        """Return the bounds; None: nothing is known of the step."""
        if self.low is None:
            return None
        return self.low, inf if self.high is None else self.high


Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def percentile(values: Iterable[float], percent: float) -> float | None:
    """Return the percentile with linear interpolation between ranks; None without values."""
    array = np.asarray(list(values), dtype=np.float64)
    return float(np.percentile(array, percent)) if array.size else None


def histogram(values: Iterable[float], bounds: Sequence[float]) -> list[tuple[float | None, int]]:
    """Return (upper bound, count) with upper bounds inclusive; the last row is open (None)."""
    array = np.asarray(list(values), dtype=np.float64)
    places = np.searchsorted(np.asarray(bounds, dtype=np.float64), array, side="left")
    counts = np.bincount(places, minlength=len(bounds) + 1)
    return [
        (bound, int(count)) for bound, count in zip([*bounds, None], counts.tolist(), strict=True)
    ]


def longest_without_new_minimum(at_seconds: Reals, values: Reals) -> float | None:
    """Return the longest time in which ``values`` reached no new minimum; NaN are skipped.

    None with fewer than two known values.
    """
    known = ~np.isnan(values)
    times, seen = at_seconds[known], values[known]
    if times.size < 2:
        return None
    lowest = np.minimum.accumulate(seen)
    is_new = np.concatenate([[True], lowest[1:] < lowest[:-1]])
    marks = np.concatenate([times[is_new], times[-1:]])
    return float(np.diff(marks).max())
