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
        self.before: Reals = np.zeros(len(shares))
        """Per partition, the records beyond share x count, since shares changed in a growth."""
        self.growths: list[tuple[float, Reals]] = []
        """Instants at which the shares became others, with those before."""
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

    def grow(self, second: float, shares: Reals) -> None:
        """Let ``shares`` hold from ``second`` on; they may be of more partitions."""
        count = self.count_at(second)
        arrived = np.zeros(len(shares))
        arrived[: len(self.shares)] = self.before + self.shares * count
        self.growths.append((second, self.shares))
        self.shares, self.before = shares, arrived - shares * count

    def records_by(self, seconds: Reals) -> Reals:
        """Return the records that each partition had got by its own one of ``seconds``."""
        if not self.growths or seconds.min() >= self.growths[-1][0]:
            return np.asarray(self.before + self.shares * self.counts_at(seconds))
        return np.array(
            [self.records_of(place, seconds[[place]])[0] for place in range(len(self.shares))]
        )

    def records_of(self, partition: int, seconds: Reals) -> Reals:
        """Return how many records a partition had got by each of ``seconds``."""
        starts = [-np.inf, *(at for at, _ in self.growths)]
        ends = [*starts[1:], np.inf]
        total: Reals = np.zeros(len(seconds))
        held = [*(shares for _, shares in self.growths), self.shares]
        for start, end, shares in zip(starts, ends, held, strict=True):
            if partition < len(shares):
                inside = self.counts_at(np.clip(seconds, start, end))
                total += shares[partition] * (inside - self.counts_at(np.array([start])))
        return total

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
