"""Determine the pod that would work on each partition without the rebalance.

* The old owner counts until the new one is assigned: the time in between, in which no pod may work,
  is the cost of a rebalance.
* From an owner's SIGTERM on, its partitions count for their next owner, if that pod has others by
  then; a pod that has none counts from the instant at which it owns its first.
* A partition without a known owner counts for no pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field

import numpy as np
import numpy.typing as npt

from lagbench.core.measures.evidence.group_events import GroupEvent
from lagbench.core.measures.evidence.lag_readings import BIN_NS, RateSeries
from lagbench.core.measures.model import Reals
from lagbench.core.measures.partition_work import POD_BINS, PartitionWork
from lagbench.core.measures.rate_dip import (
    AFTERMATH_SECONDS,
    IN_FLIGHT_BINS,
    SHORT_SHARE,
    SMALLEST_EXPECTED,
    WINDOW_BINS,
    area,
    depth,
)

NOBODY = -1


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """From bin ``place`` on ``partition`` counts for ``pod`` (its number, or NOBODY)."""

    place: int
    partition: int
    pod: int


@dataclass(frozen=True, slots=True)
class CountingOwners:
    """The owners over time; the changes ascend by bin."""

    pods: tuple[str, ...]
    changes: tuple[OwnerChange, ...]
    partitions: int

    def at(self, place: int) -> npt.NDArray[np.int64]:
        """Return the pod that each partition counts for in bin ``place``."""
        owner = np.full(self.partitions, NOBODY, dtype=np.int64)
        for change in self.changes:
            if change.place > place:
                break
            owner[change.partition] = change.pod
        return owner

    def between(self, after: int, until: int) -> list[OwnerChange]:
        """Return the changes in bins (after, until)."""
        return [change for change in self.changes if after < change.place < until]


def counting_owners(
    events: Sequence[GroupEvent], started_at: int, partitions: int
) -> CountingOwners:
    """Return the counting owners from ``events`` (ascending); bin 0 begins at ``started_at``."""
    pods = tuple(dict.fromkeys(event.pod for event in events))
    number = {pod: place for place, pod in enumerate(pods)}
    owner: dict[int, str | None] = {}
    changes: list[OwnerChange] = []

    def count_for(place: int, partition: int, pod: str | None) -> None:
        owner[partition] = pod
        chosen = NOBODY if pod is None else number[pod]
        changes.append(OwnerChange(max(place, 0), partition, chosen))

    for index, event in enumerate(events):
        if event.kind == "assigned" and event.owned is not None:
            place = -((started_at - event.at) // BIN_NS)  # the first bin that it owns completely
            for partition in sorted(event.owned):
                if partition < partitions and owner.get(partition) != event.pod:
                    count_for(place, partition, event.pod)
        elif event.kind == "sigterm":
            place = (event.at - started_at) // BIN_NS
            for partition in sorted(p for p, pod in owner.items() if pod == event.pod):
                following = _next_owner(events[index:], partition, event.pod)
                has_others = following in owner.values()
                count_for(place, partition, following if has_others else None)
    return CountingOwners(pods, tuple(sorted(changes, key=lambda change: change.place)), partitions)


def _next_owner(events: Sequence[GroupEvent], partition: int, leaving: str) -> str | None:
    for event in events:
        is_new = event.kind == "assigned" and event.pod != leaving
        if is_new and event.owned is not None and partition in event.owned:
            return event.pod
    return None


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

    def undone(self, first: int, watch: int) -> Reals:
        """Return the messages that wait or are on their way, at the edges of the bins."""
        edges = watch + 1 - first
        waiting = self.work.waiting[:, first : watch + 1].sum(axis=0, dtype=np.float64)
        coming = self.work.arrivals[:, first : watch + IN_FLIGHT_BINS].sum(axis=0, dtype=np.float64)
        coming = np.pad(coming, (0, edges - 1 + IN_FLIGHT_BINS - coming.size))
        on_way = sum(coming[later : later + edges] for later in range(IN_FLIGHT_BINS))
        return np.pad(waiting, (0, edges - waiting.size), mode="edge") + on_way

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


SEARCHED_BINS = round((1 + AFTERMATH_SECONDS) * WINDOW_BINS)
"""An episode of a second and the five seconds after it."""
COMPARABLE = 2.0
"""Noise is relative: blocks with half to twice the expected rate decide, if there are any."""
REACHED_PERCENTILE = 90.0


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise in undisturbed periods."""

    dip_noise_percent: float
    short_dip_noise_percent: float
    area_noise_seconds: float


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
        table = [astuple(noise) for noise in found]
        return Noise(*np.percentile(table, REACHED_PERCENTILE, axis=0).tolist())

    def _measured(self, bins: int) -> list[tuple[float, Noise]]:
        """Return the expected rate and the noise of each block in which enough was expected."""
        length, short_bins = SEARCHED_BINS + bins, max(bins // SHORT_SHARE, 1)
        blocks: list[tuple[float, Noise]] = []
        place = self.first
        for first, last in [*self.disturbed, (self.last, self.last)]:
            while place + length <= min(first, self.last):
                expected = self.expectation.expected(place, place + length)
                done = self.rate.processed[place : place + length]
                undone = self.expectation.undone(place, place + length)
                place += length
                whole = depth(expected, done, bins, SEARCHED_BINS, undone)
                short = depth(expected, done, short_bins, SEARCHED_BINS, undone)
                if expected.sum() < SMALLEST_EXPECTED or whole is None or short is None:
                    continue
                noise = Noise(100 * whole[0], 100 * short[0], area(expected, done)[1])
                blocks.append((float(expected.mean()) * WINDOW_BINS, noise))
            place = max(place, last)
        return blocks
