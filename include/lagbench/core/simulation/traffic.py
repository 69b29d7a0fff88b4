"""The offered load as straight lines: how much has arrived by any instant."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from lagbench.core.measures import Reals
from lagbench.core.scenario.stream import OfferedLoad


class Traffic:
    """Cumulative arrivals; nothing arrives before second 0 and after the load's end."""

    def __init__(self, load: OfferedLoad, shares: Reals) -> None:
        """Lay out the rate's steps; ``shares`` is each partition's part of every rate."""
        self.load, self.shares = load, shares
        merged: list[tuple[float, float]] = []
        for part in load.segments:
            if not merged or merged[-1][1] != part.rate_per_second:
                merged.append((part.start_seconds, part.rate_per_second))
        merged.append((load.duration_seconds, 0.0))
        self.starts = [start for start, _ in merged]
        self.rates = [rate for _, rate in merged]
        self._counts = [0.0]
        for index in range(1, len(merged)):
            seconds = self.starts[index] - self.starts[index - 1]
            self._counts.append(self._counts[-1] + seconds * self.rates[index - 1])

    def segment_at(self, second: float) -> int:
        """Return the index of the segment in force; -1 before the stream."""
        return bisect_right(self.starts, second) - 1

    def count_at(self, second: float) -> float:
        """Return the number of records that have arrived in total."""
        index = bisect_right(self.starts, second) - 1
        if index < 0:
            return 0.0
        return self._counts[index] + (second - self.starts[index]) * self.rates[index]

    def counts_at(self, seconds: Reals) -> Reals:
        """Return how many records have arrived in all by each of ``seconds``."""
        counts: Reals = np.interp(seconds, self.starts, self._counts)
        return counts
