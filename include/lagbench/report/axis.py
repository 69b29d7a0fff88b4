"""Place values on the axis of a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

_LOG_FROM = 4.0
"""Highest by lowest value from which an axis is logarithmic."""
_STEPS, _FINE_STEPS = (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)
"""Of a decade of a logarithmic axis; the fine ones where it shows less than one and a half."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: values to pixels; logarithmic where the values are of several magnitudes."""

    low: float
    high: float
    first: float  # pixel of ``low``
    last: float
    is_log: bool

    @classmethod
    def of(cls, values: Sequence[float], first: float, last: float) -> Axis:
        """Return the axis that holds the values, with room at its ends."""
        least, most = min(values), max(values)
        if least > 0 and most / least > _LOG_FROM:
            return cls(least / 1.2, most * 1.2, first, last, is_log=True)
        room = 0.08 * (most - least) or max(1.0, 0.1 * most)
        return cls(max(0.0, least - room), most + room, first, last, is_log=False)

    def at(self, value: float) -> float:
        """Return the pixel of a value; one below a logarithmic axis is on its edge."""
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = (log10(max(one, self.low)) for one in (value, low, high))
        share = min(max((value - low) / (high - low), 0.0), 1.0)
        return round(self.first + share * (self.last - self.first), 1)

    @property
    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield pixel and text of round values."""
        if self.is_log:
            exponents = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
            steps = _STEPS if self.high / self.low > 30 else _FINE_STEPS
            values = [step * 10.0**one for one in exponents for step in steps]
        else:
            rough = (self.high - self.low) / 6
            power = 10.0 ** floor(log10(rough))
            step = power * next(one for one in (1, 2, 5, 10) if one * power >= rough)
            values = [step * one for one in range(ceil(self.low / step), ceil(self.high / step))]
        for value in values:
            if self.low <= value <= self.high:
                yield self.at(value), f"{value:,.10g}"
