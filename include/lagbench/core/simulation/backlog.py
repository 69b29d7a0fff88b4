"""The lag of each partition as straight lines between breakpoints, in closed form.

A breakpoint is a change of the offered rate, of the owners, of the downstream's pace, or a
partition that runs empty. Between two of them every rate is constant, so the state at any instant
is one multiplication away. Kept is the lag alone: what is done is what has arrived minus the lag.
A pod that keeps up with all of its partitions has no line to change when the offered rate does, so
it is passed over as long as it can. The others change a handful of numbers each, so they are kept
in lists (numpy took four times as long); reads go over all partitions at once, in arrays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from math import inf

import numpy as np

from lagbench.core.measures.model import Ints, Reals
from lagbench.core.scenario.message_costs import DownstreamPace
from lagbench.core.scenario.offered_load import OfferedLoad

# Less than this of a record is rounding: counts stay below 1e9 and doubles hold 1e-7 of that.
_EMPTY_RECORDS = 1e-6
_UNBOUNDED_RATE = 1e9
# The least that time moves on: a partition that is all but empty must not hold it still.
_LEAST_SECONDS = 1e-9

NOBODY = -1
Course = list[float]
"""instant, lag, instant, lag, ...: straight from one to the next; flat, which numpy reads fast."""


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
        counts = np.diff(self.starts) * self.rates[:-1]
        self._counts: list[float] = [0.0, *np.cumsum(counts).tolist()]
        self._line: tuple[Reals, Reals] = (np.array(self.starts), np.array(self._counts))

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
        counts: Reals = np.interp(seconds, *self._line)
        return counts


def share_fairly(demand: Mapping[int, float], pod_rate: float) -> dict[int, float]:
    """Return the rate at which each partition of one pod is worked on.

    ``demand`` is what each partition could use: no bound while it has lag, else its arrivals. The
    rest goes evenly to the pod's others (max-min fairness: the same as a worker that takes from one
    queue after the other).
    """
    if demand and min(demand.values()) == inf:
        return dict.fromkeys(demand, pod_rate / len(demand))
    served: dict[int, float] = {}
    spare, left = pod_rate, len(demand)
    # Smallest demand first: what it leaves raises the share of all that follow.
    for partition in sorted(demand, key=demand.__getitem__):
        served[partition] = rate = min(demand[partition], spare / left)
        spare -= rate
        left -= 1
    return served


class Backlog:
    """Arrivals, work and commits of the group; ``advance`` moves time forward, never back."""

    def __init__(
        self,
        traffic: Traffic,
        *,
        pod_rate: float,
        commit_seconds: float,
        starts_at: float,
        pace: DownstreamPace | None = None,
    ) -> None:
        """Start empty at ``starts_at`` (seconds; the stream starts at 0) with no owners."""
        self._traffic = traffic
        self._full_pod_rate = self._pod_rate = min(pod_rate, _UNBOUNDED_RATE)
        self._paces = deque(pace.changes if pace is not None else ())
        self._commit_seconds = commit_seconds
        self._shares: list[float] = traffic.shares.tolist()
        self._before: list[float] = traffic.before.tolist()
        partitions = len(self._shares)
        self.owners = [NOBODY] * partitions
        self._commit_phase = np.zeros(partitions)
        self._phases: list[list[float]] = [[starts_at, 0.0] for _ in range(partitions)]
        """Per partition: instant, commit phase, instant, ..., of each new owner."""
        self._revoked_at_records = np.zeros(partitions)
        self._since = [starts_at] * partitions
        self._lag, self._growth = [0.0] * partitions, [0.0] * partitions
        self._courses: list[Course] = [[starts_at, 0.0] for _ in range(partitions)]
        self._segment = traffic.segment_at(starts_at)
        self._rate = 0.0
        self._held: dict[int, list[int]] = {NOBODY: list(range(partitions))}
        self._empty_at: dict[int, float] = {}
        self._calm_shares: dict[int, float] = {}
        """Sum of the shares of each pod whose partitions have no lag and get none."""
        self._arrays: tuple[Reals, Reals, Reals] | None = None
        self._changed_at = starts_at
        self._next_at = -inf
        self._break(starts_at, self._held)

    @property
    def served_per_second(self) -> float:
        """Return the rate at which all pods work now."""
        return sum(self._shares) * self._rate - sum(self._growth)

    def advance(self, second: float) -> None:
        """Move on to ``second``, over every breakpoint on the way."""
        while self._next_at <= second:
            at = self._next_at
            has_new_pace = False
            while self._paces and self._paces[0][0] <= at:
                _, factor = self._paces.popleft()
                self._pod_rate, has_new_pace = self._full_pod_rate / factor, True
            segment = self._traffic.segment_at(at)
            if segment != self._segment or has_new_pace:
                self._segment = segment
                self._break(at, self._held)
            else:
                self._break(at, [pod for pod, due in self._empty_at.items() if due <= at])

    def set_owners(
        self, second: float, owners: Sequence[int], commit_phases: Mapping[int, float]
    ) -> None:
        """Give each partition to the pod of that number, or to ``NOBODY``."""
        self.advance(second)
        arrived = self._traffic.count_at(second)
        touched: set[int] = set()
        both = enumerate(zip(self.owners, owners, strict=True))
        for partition, (before, after) in [one for one in both if one[1][0] != one[1][1]]:
            touched.add(before)
            touched.add(after)
            if self._lag[partition] or self._growth[partition]:
                self._move(partition, second)
            got = self._before[partition] + self._shares[partition] * arrived
            done = got - self._lag[partition]
            self._revoked_at_records[partition] = done
            phase = self._commit_phase[partition] = commit_phases.get(after, 0.0)
            self._phases[partition] += (second, phase)
            self._held[before].remove(partition)
            self._held.setdefault(after, []).append(partition)
        self.owners = list(owners)
        for pod in touched:
            self._calm_shares.pop(pod, None)
        self._break(second, touched)
        for pod in touched:
            if not self._held[pod]:
                del self._held[pod], self._empty_at[pod]

    def grow(self, second: float, shares: Reals) -> None:
        """Have as many partitions as ``shares`` from ``second`` on; new ones have no owner."""
        self.advance(second)
        for partition in range(len(self._shares)):
            if self._lag[partition] or self._growth[partition]:
                self._move(partition, second)
        self._traffic.grow(second, shares)
        known = len(self._shares)
        more = len(shares) - known
        self._shares, self._before = shares.tolist(), self._traffic.before.tolist()
        self.owners = [*self.owners, *[NOBODY] * more]
        self._commit_phase = np.concatenate([self._commit_phase, np.zeros(more)])
        self._revoked_at_records = np.concatenate([self._revoked_at_records, np.zeros(more)])
        self._since += [second] * more
        self._lag += [0.0] * more
        self._growth += [0.0] * more
        self._courses += [[second, 0.0] for _ in range(more)]
        self._phases += [[second, 0.0] for _ in range(more)]
        self._held.setdefault(NOBODY, []).extend(range(known, len(shares)))
        self._calm_shares.clear()
        self._arrays = None
        self._break(second, list(self._held))

    def courses(self, until: float) -> list[tuple[Reals, Reals]]:
        """Return the lag of each partition as (instants, lags), straight in between."""
        self.advance(until)
        for partition in range(len(self._shares)):
            self._move(partition, until)
        self._arrays = None
        ways = (np.array(course).reshape(-1, 2) for course in self._courses)
        return [(way[:, 0], way[:, 1]) for way in ways]

    def offsets_at(self, second: float) -> tuple[Ints, Ints]:
        """Return (end, committed) offset per partition as the broker would report them."""
        self.advance(second)
        traffic = self._traffic
        arrived = traffic.count_at(second)
        committed_at = second - (second - self._commit_phase) % self._commit_seconds
        since, lag, growth = self._lines()
        waiting = lag + growth * (committed_at - since)
        if self._changed_at > second - self._commit_seconds:
            for partition in np.flatnonzero(committed_at < since).tolist():
                instant = float(committed_at[partition])
                waiting[partition] = _lag_at(self._courses[partition], instant)
        records = traffic.records_by(committed_at) - waiting
        committed = np.maximum(records, self._revoked_at_records) + _EMPTY_RECORDS
        end = (traffic.before + traffic.shares * arrived).astype(np.int64)
        return end, np.minimum(committed.astype(np.int64), end)

    def committed_at(self, partition: int, seconds: Reals) -> Reals:
        """Return the instant of the last commit at each of ``seconds``; a former owner left one."""
        course = np.array(self._phases[partition]).reshape(-1, 2)
        owner = np.maximum(np.searchsorted(course[:, 0], seconds, side="right") - 1, 0)
        begun, phase = course[owner].T
        last: Reals = np.maximum(seconds - (seconds - phase) % self._commit_seconds, begun)
        return last

    def _lines(self) -> tuple[Reals, Reals, Reals]:
        """Return the present lines as arrays: since, lag then, its growth per second."""
        if self._arrays is None:
            since, lag, growth = np.array((self._since, self._lag, self._growth))
            self._arrays = (since, lag, growth)
        return self._arrays

    def _move(self, partition: int, second: float) -> None:
        """End the partition's line at ``second`` and begin the next one there."""
        lag = self._lag[partition] + self._growth[partition] * (second - self._since[partition])
        if lag < _EMPTY_RECORDS:
            lag = 0.0
        self._lag[partition], self._since[partition] = lag, second
        self._courses[partition] += (second, lag)

    def _break(self, at: float, pods: Iterable[int]) -> None:
        """Compute the rates of these pods again from ``at`` on."""
        traffic = self._traffic
        rate = self._rate = traffic.rates[self._segment] if self._segment >= 0 else 0.0
        for pod in pods:
            pod_rate = 0.0 if pod == NOBODY else self._pod_rate
            calm_share = self._calm_shares.get(pod)
            if calm_share is None or calm_share * rate > pod_rate:
                self._share_out(pod, pod_rate, at)
        following = self._segment + 1
        change_at = traffic.starts[following] if following < len(traffic.starts) else inf
        pace_at = self._paces[0][0] if self._paces else inf
        self._next_at = min(*self._empty_at.values(), change_at, pace_at)

    def _share_out(self, pod: int, pod_rate: float, at: float) -> None:
        """Begin new lines for a pod's partitions, with what it does for each of them."""
        lags, shares, growths, rate = self._lag, self._shares, self._growth, self._rate
        held, since = self._held[pod], self._since
        has_lag, share = False, 0.0
        for partition in held:
            # A line at rest needs no new beginning before it leaves.
            if since[partition] != at and (lags[partition] or growths[partition]):
                self._move(partition, at)
            if lags[partition] > 0.0:
                has_lag = True
            share += shares[partition]
        first_empty_at = inf
        self._changed_at, self._arrays = at, None
        if not has_lag and share * rate <= pod_rate:
            self._calm_shares[pod] = share
            for partition in held:
                growths[partition] = 0.0
        else:
            self._calm_shares.pop(pod, None)
            demand = {p: inf if lags[p] > 0.0 else shares[p] * rate for p in held}
            for partition, served in share_fairly(demand, pod_rate).items():
                growth = shares[partition] * rate - served
                if growth and since[partition] != at:
                    self._move(partition, at)
                growths[partition] = growth
                if growth < -_EMPTY_RECORDS and lags[partition] < first_empty_at * -growth:
                    first_empty_at = lags[partition] / -growth
        self._empty_at[pod] = at + max(first_empty_at, _LEAST_SECONDS)


def _lag_at(course: Course, instant: float) -> float:
    """Return the lag at an instant of the past, which is nearly always just over."""
    after, lag_after = course[-2:]
    for place in range(len(course) - 2, -1, -2):
        at, lag = course[place], course[place + 1]
        if at <= instant:
            share = (instant - at) / (after - at) if after > at else 0.0
            return lag + share * (lag_after - lag)
        after, lag_after = at, lag
    return 0.0
