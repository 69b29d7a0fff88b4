"""The lag of each partition as straight lines between breakpoints, in closed form.

A breakpoint is a change of the offered rate, of the owners, or a partition that runs empty. Between
two of them every rate is constant, so the state at any instant is one multiplication away. A
partition that runs empty changes the rates of its own pod only: a handful of numbers, so they are
kept in lists (numpy took four times as long); reads go over all partitions at once, in arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

import numpy as np

from lagbench.core.simulation.fair_shares import share_fairly
from lagbench.core.simulation.traffic import Traffic
from lagbench.core.statistics import Ints, Reals

# Less than this of a record is rounding: counts stay below 1e9 and doubles hold 1e-7 of that.
_EMPTY_RECORDS = 1e-6
_UNBOUNDED_RATE = 1e9
# The least that time moves on: a partition that is all but empty must not hold it still.
_LEAST_SECONDS = 1e-9

NOBODY = -1
Point = tuple[float, float, float]
"""(instant, lag, records done by then); straight from one to the next."""


class Backlog:
    """Arrivals, work and commits of the group; ``advance`` moves time forward, never back."""

    def __init__(
        self, traffic: Traffic, *, pod_rate: float, commit_seconds: float, starts_at: float
    ) -> None:
        """Start empty at ``starts_at`` (seconds; the stream starts at 0) with no owners."""
        self._traffic, self._pod_rate = traffic, min(pod_rate, _UNBOUNDED_RATE)
        self._commit_seconds = commit_seconds
        self._shares: list[float] = traffic.shares.tolist()
        partitions = len(self._shares)
        self.owners = [NOBODY] * partitions
        self._commit_phase = np.zeros(partitions)
        self._revoked_at_records = np.zeros(partitions)
        self._since = [starts_at] * partitions
        self._done, self._lag, self._served, self._arriving = ([0.0] * partitions for _ in range(4))
        self._courses: list[list[Point]] = [[(starts_at, 0.0, 0.0)] for _ in range(partitions)]
        self._segment = traffic.segment_at(starts_at)
        self._held: dict[int, list[int]] = {NOBODY: list(range(partitions))}
        self._empty_at: dict[int, float] = {}
        self._arrays: tuple[Reals, Reals, Reals, Reals, Reals] | None = None
        self._changed_at = starts_at
        self._next_at = -inf
        self._break(starts_at, self._held)

    @property
    def served_per_second(self) -> float:
        """Return the rate at which all pods work now."""
        return sum(self._served)

    def advance(self, second: float) -> None:
        """Move on to ``second``, over every breakpoint on the way."""
        while self._next_at <= second:
            at = self._next_at
            segment = self._traffic.segment_at(at)
            if segment != self._segment:
                self._segment = segment
                self._break(at, self._held)
            else:
                self._break(at, [pod for pod, due in self._empty_at.items() if due <= at])

    def set_owners(
        self, second: float, owners: Sequence[int], commit_phases: Mapping[int, float]
    ) -> None:
        """Give each partition to the pod of that number, or to ``NOBODY``.

        Who gives a partition up commits it first. ``commit_phases``: when in the interval each pod
        commits.
        """
        self.advance(second)
        arrived = self._traffic.count_at(second)
        touched: set[int] = set()
        for partition, (before, after) in enumerate(zip(self.owners, owners, strict=True)):
            if before == after:
                continue
            touched |= {before, after}
            self._move(partition, second, arrived)
            self._revoked_at_records[partition] = self._done[partition]
            self._commit_phase[partition] = commit_phases.get(after, 0.0)
            self._held[before].remove(partition)
            self._held.setdefault(after, []).append(partition)
        self.owners = list(owners)
        self._break(second, touched)
        for pod in touched:
            if not self._held[pod]:
                del self._held[pod], self._empty_at[pod]

    def lag_at(self, second: float) -> float:
        """Return the records that wait in all at an instant not before the last advance."""
        since, _, _, lag, growth = self._lines()
        return float((lag + growth * (second - since)).sum())

    def courses(self, until: float) -> list[tuple[Reals, Reals]]:
        """Return the lag of each partition as (instants, lags), straight in between."""
        self.advance(until)
        for partition in range(len(self._shares)):
            self._move(partition, until, self._traffic.count_at(until))
        self._arrays = None
        ways = (np.array(course) for course in self._courses)
        return [(way[:, 0], way[:, 1]) for way in ways]

    def offsets_at(self, second: float) -> tuple[Ints, Ints]:
        """Return (end, committed) offset per partition as the broker would tell them."""
        self.advance(second)
        end = (self._traffic.shares * self._traffic.count_at(second)).astype(np.int64)
        committed_at = second - (second - self._commit_phase) % self._commit_seconds
        since, done, served, _, _ = self._lines()
        records = done + served * (committed_at - since)
        if self._changed_at > second - self._commit_seconds:
            for partition in np.flatnonzero(committed_at < since).tolist():
                instant = float(committed_at[partition])
                records[partition] = _records_at(self._courses[partition], instant)
        committed = np.maximum(records, self._revoked_at_records)
        return end, np.minimum((committed + _EMPTY_RECORDS).astype(np.int64), end)

    def _lines(self) -> tuple[Reals, Reals, Reals, Reals, Reals]:
        """Return the present lines as arrays: since, done, served, lag, growth of the lag."""
        if self._arrays is None:
            rows = (self._since, self._done, self._served, self._lag, self._arriving)
            since, done, served, lag, arriving = np.array(rows)
            self._arrays = (since, done, served, lag, arriving - served)
        return self._arrays

    def _move(self, partition: int, second: float, arrived: float) -> None:
        """End the partition's line at ``second`` and begin the next one there."""
        since, served = self._since[partition], self._served[partition]
        lag = self._lag[partition] + (self._arriving[partition] - served) * (second - since)
        if lag < _EMPTY_RECORDS:
            lag = 0.0
        done = self._shares[partition] * arrived - lag
        self._lag[partition], self._since[partition], self._done[partition] = lag, second, done
        self._courses[partition].append((second, lag, done))

    def _break(self, at: float, pods: Iterable[int]) -> None:
        """Work out the rates of these pods anew from ``at`` on."""
        traffic, lags, shares = self._traffic, self._lag, self._shares
        rate = traffic.rates[self._segment] if self._segment >= 0 else 0.0
        arrived = traffic.count_at(at)
        for pod in pods:
            demand = {}
            for partition in self._held[pod]:
                if self._since[partition] != at:
                    self._move(partition, at, arrived)
                arriving = self._arriving[partition] = shares[partition] * rate
                demand[partition] = inf if lags[partition] > 0.0 else arriving
            share_fairly(self._served, demand, 0.0 if pod == NOBODY else self._pod_rate)
            self._empty_at[pod] = max(self._first_empty_at(pod, at), at + _LEAST_SECONDS)
        following = self._segment + 1
        change_at = traffic.starts[following] if following < len(traffic.starts) else inf
        self._next_at = min(*self._empty_at.values(), change_at)
        self._changed_at, self._arrays = at, None

    def _first_empty_at(self, pod: int, at: float) -> float:
        first = inf
        for partition in self._held[pod]:
            lag = self._lag[partition]
            if lag > 0.0:
                falls = self._served[partition] - self._arriving[partition]
                if falls > _EMPTY_RECORDS:
                    first = min(first, lag / falls)
        return at + first


def _records_at(course: Sequence[Point], instant: float) -> float:
    """Return the records done at an instant of the past, which is nearly always just over."""
    after, _, done_after = course[-1]
    for at, _, done in reversed(course):
        if at <= instant:
            share = (instant - at) / (after - at) if after > at else 0.0
            return done + share * (done_after - done)
        after, done_after = at, done
    return 0.0
