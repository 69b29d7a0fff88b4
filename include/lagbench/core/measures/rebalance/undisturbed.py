"""Measure the precision of a dip: its value in undisturbed periods.

The periods of the run in which no partition moved are cut into blocks as long as the search of an
ordinary episode. Each block gets the same expectation and the same windows as an episode. Noise
alone reaches the depth and the area that nine of ten blocks stay below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lagbench.core.measures.evidence.series import RateSeries
from lagbench.core.measures.rebalance.counterfactual import Counterfactual
from lagbench.core.measures.rebalance.rate_dip import (
    AFTERMATH_SECONDS,
    SHORT_SHARE,
    SMALLEST_EXPECTED,
    WINDOW_BINS,
    area,
    depth,
)

SEARCHED_BINS = round((1 + AFTERMATH_SECONDS) * WINDOW_BINS)
"""An episode of a second and the five seconds after it."""
COMPARABLE = 2.0
"""Noise is relative: blocks with half to twice the expected rate decide, if there are any."""
REACHED_PERCENTILE = 90.0


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise in undisturbed periods."""

    dip_percent: float
    short_dip_percent: float
    area_seconds: float


@dataclass(slots=True)
class Undisturbed:
    """Measure noise; ``disturbed`` are the bins [first, last) to leave out, ascending."""

    rate: RateSeries
    expectation: Counterfactual
    first: int
    last: int
    disturbed: Sequence[tuple[int, int]]
    _blocks: dict[int, list[tuple[float, Noise]]] = field(default_factory=dict, init=False)

    def noise(self, bins: int, rate_per_second: float) -> Noise | None:
        """Return the noise of windows of ``bins`` at about ``rate_per_second``; None: unknown."""
        if bins not in self._blocks:
            self._blocks[bins] = self._measured(bins)
        alike = [
            noise
            for rate, noise in self._blocks[bins]
            if rate_per_second / COMPARABLE <= rate <= rate_per_second * COMPARABLE
        ]
        found = alike or [noise for _, noise in self._blocks[bins]]
        if not found:
            return None
        return Noise(
            *(
                float(np.percentile([getattr(noise, name) for noise in found], REACHED_PERCENTILE))
                for name in ("dip_percent", "short_dip_percent", "area_seconds")
            )
        )

    def _measured(self, bins: int) -> list[tuple[float, Noise]]:
        """Return the expected rate and the noise of each block in which enough was expected."""
        length, short_bins = SEARCHED_BINS + bins, max(bins // SHORT_SHARE, 1)
        blocks: list[tuple[float, Noise]] = []
        place = self.first
        for first, last in [*self.disturbed, (self.last, self.last)]:
            while place + length <= min(first, self.last):
                expected = self.expectation.expected(place, place + length)
                done = self.rate.processed[place : place + length]
                place += length
                whole = depth(expected, done, bins, SEARCHED_BINS)
                short = depth(expected, done, short_bins, SEARCHED_BINS)
                if expected.sum() < SMALLEST_EXPECTED or whole is None or short is None:
                    continue
                noise = Noise(100 * whole[0], 100 * short[0], area(expected, done)[1])
                blocks.append((float(expected.mean()) * WINDOW_BINS, noise))
            place = max(place, last)
        return blocks
