"""Compute the expected rate: the group's work without the rebalance, as flows of messages.

In each bin of 100 ms a pod works on the messages that wait in the partitions that count for it
(``rebalance/counting_owners.py``), up to the rate of one pod. The simulation begins with the
messages that really waited.

The rate of one pod is what the pods of this run demonstrably did in a second while work waited for
them and nothing moved (the median of seconds in which they did anything). It is at most the rate
that the settings allow, and equal to it if no pod was ever busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lagbench.core.measures.rebalance.counting_owners import NOBODY, CountingOwners
from lagbench.core.measures.rebalance.partition_work import POD_BINS, PartitionWork
from lagbench.core.measures.rebalance.rate_dip import WINDOW_BINS
from lagbench.core.measures.statistics import Reals

FEWEST_BUSY_SECONDS = 3


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The expected work of the group, bin by bin."""

    work: PartitionWork
    owners: CountingOwners
    pod_rate_per_second: float
    slowness: Reals | None = None
    """By bin, the cost of a write as a multiple of the settings'; None: it always is theirs."""

    def expected(self, first: int, watch: int) -> Reals:
        """Return the expected work in each bin of [first, watch)."""
        count = len(self.owners.pods)
        limit = self.pod_rate_per_second / WINDOW_BINS
        owner = self.owners.at(first)
        changes = self.owners.between(first, watch)
        backlog = self.work.waiting[:, first].astype(np.float64)
        arrivals = self.work.arrivals[:, first:watch].T.astype(np.float64)
        expected = np.zeros(watch - first)
        following = 0
        for place in range(watch - first):
            while following < len(changes) and changes[following].place <= first + place:
                owner[changes[following].partition] = changes[following].pod
                following += 1
            backlog += arrivals[place]
            load = np.bincount(owner + 1, weights=backlog, minlength=count + 1)
            slowness = 1.0 if self.slowness is None else self.slowness[first + place]
            share = np.minimum(1.0, limit / slowness / np.maximum(load, 1e-9))
            share[NOBODY + 1] = 0.0
            done = backlog * share[owner + 1]
            backlog -= done
            expected[place] = done.sum()
        return expected

    def available(self, first: int, watch: int) -> float:
        """Return how many messages there were to do in [first, watch)."""
        waited = self.work.waiting[:, first].sum(dtype=np.float64)
        return float(waited + self.work.arrivals[:, first:watch].sum(dtype=np.float64))


def pod_rate_per_second(
    work: PartitionWork,
    owners: CountingOwners,
    disturbed: Sequence[tuple[int, int]],
    nominal: float | None,
) -> float | None:
    """Return the rate of one pod; None: it is not limited by the settings and was never busy.

    ``disturbed``: bins [first, last) in which partitions moved, or the downstream was slow.
    """
    busy = _busy_seconds(work, owners, disturbed)
    if len(busy) < FEWEST_BUSY_SECONDS:
        return nominal
    shown = float(np.median(busy))
    return shown if nominal is None else min(shown, nominal)


def _busy_seconds(
    work: PartitionWork, owners: CountingOwners, disturbed: Sequence[tuple[int, int]]
) -> list[int]:
    """Return pods' work in seconds in which more waited throughout than they do in 0.2 s."""
    if work.pod_rates is None:
        return []
    rates = work.pod_rates
    seconds = rates.done.shape[1]
    calm = np.ones(seconds, dtype=bool)
    for first, last in disturbed:
        calm[max(first // POD_BINS, 0) : last // POD_BINS + 1] = False
    busy: list[int] = []
    number = {pod: place for place, pod in enumerate(rates.pods)}
    for second in np.flatnonzero(calm).tolist():
        bins = slice(second * POD_BINS, (second + 1) * POD_BINS)
        least = work.waiting[:, bins].min(axis=1) if work.waiting[:, bins].size else None
        if least is None:
            continue
        owner = owners.at(second * POD_BINS)
        load = np.bincount(owner + 1, weights=least, minlength=len(owners.pods) + 1)
        for place, pod in enumerate(owners.pods):
            row = number.get(pod)
            done = 0 if row is None else int(rates.done[row, second])
            if done and load[place + 1] >= done / 5:
                busy.append(done)
    return busy
