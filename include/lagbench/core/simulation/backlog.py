"""The lag of each partition as straight lines between breakpoints, in closed form.

A breakpoint is a change of the offered rate, of the owners, or a partition that runs empty. Between
two of them every rate is constant, so the state at any instant is one multiplication away.
"""

from __future__ import annotations

from math import inf

import numpy as np

from lagbench.core.simulation.fair_shares import keeps_up, share_fairly
from lagbench.core.simulation.traffic import Traffic
from lagbench.core.statistics import Ints, Reals

# Less than this of a record is rounding: counts stay below 1e9 and doubles hold 1e-7 of that.
_EMPTY_RECORDS = 1e-6
_UNBOUNDED_RATE = 1e9


class Backlog:
    """Arrivals, work and commits of the group; ``advance`` moves time forward, never back."""

    def __init__(
        self, traffic: Traffic, *, pod_rate: float, commit_seconds: float, starts_at: float
    ) -> None:
        """Start empty at ``starts_at`` (seconds; the stream starts at 0) with no owners."""
        self._traffic, self._pod_rate = traffic, min(pod_rate, _UNBOUNDED_RATE)
        self._commit_seconds = commit_seconds
        partitions = len(traffic.shares)
        self.owner: Ints = np.full(partitions, -1, dtype=np.int64)
        self._held: list[list[int]] = []
        self._commit_phase = np.zeros(partitions)
        self._revoked_at_records = np.zeros(partitions)
        self._segment = traffic.segment_at(starts_at)
        self._at = starts_at
        self._lag = np.zeros(partitions)
        self.served = np.zeros(partitions)
        self._level = self._net = np.zeros(partitions)
        self._next_at = -inf
        # (since, records done by then, rate of work) of the lines that a commit may still lie on
        self._lines: list[tuple[float, Reals, Reals]] = []
        self.instants: list[float] = []
        self.lags: list[Reals] = []
        self._break()

    def advance(self, second: float) -> None:
        """Move on to ``second``, over every breakpoint on the way."""
        while self._next_at <= second:
            self._move(self._next_at)
            segment = self._traffic.segment_at(self._next_at)
            if segment == self._segment:
                emptied = (self._lag == 0.0) & (self._net < 0.0)
                self._break({int(pod) for pod in self.owner[emptied]})
            else:
                self._segment = segment
                self._break()

    def set_owners(self, second: float, owner: Ints, pods: int, commit_phase: Reals) -> None:
        """Give the partitions to ``owner`` (-1: nobody) of ``pods`` pods.

        Who gives a partition up commits it first. ``commit_phase``: when in the interval each
        partition's owner commits.
        """
        self.advance(second)
        self._move(second)
        moved = owner != self.owner
        done = self._traffic.shares * self._traffic.count_at(second) - self._lag
        self._revoked_at_records = np.where(moved, done, self._revoked_at_records)
        self.owner, self._commit_phase = owner, commit_phase
        self._held = [[] for _ in range(pods)]
        for partition, pod in enumerate(owner.tolist()):
            if pod >= 0:
                self._held[pod].append(partition)
        self._break()

    def lag_at(self, second: float) -> float:
        """Return the records that wait in all at an instant not before the last advance."""
        return float(self.lags_at(second).sum())

    def lags_at(self, second: float) -> Reals:
        """Return the lag per partition at an instant not before the last advance."""
        lag: Reals = self._lag + self._net * (second - self._at)
        return lag

    def offsets_at(self, second: float) -> tuple[Ints, Ints]:
        """Return (end, committed) offset per partition as the broker would tell them."""
        self.advance(second)
        end = (self._traffic.shares * self._traffic.count_at(second)).astype(np.int64)
        committed_at = second - (second - self._commit_phase) % self._commit_seconds
        since, done, rate = self._lines[-1]
        if since <= second - self._commit_seconds:
            records = done + rate * (committed_at - since)
        else:
            records = self._done_at(committed_at)
        committed = np.maximum(records, self._revoked_at_records)
        return end, np.minimum((committed + _EMPTY_RECORDS).astype(np.int64), end)

    def _done_at(self, instants: Reals) -> Reals:
        """Return the records done per partition, each at an instant of its own."""
        records = np.zeros(len(instants))
        for since, done, rate in self._lines:
            records = np.where(instants >= since, done + rate * (instants - since), records)
        return records

    def _move(self, second: float) -> None:
        lag = self._lag + self._net * (second - self._at)
        lag[lag < _EMPTY_RECORDS] = 0.0
        self._lag, self._at = lag, second

    def _break(self, changed: set[int] | None = None) -> None:
        """Start new lines at the present instant; only the ``changed`` pods' rates are new."""
        at, traffic = self._at, self._traffic
        rate = traffic.rates[self._segment] if self._segment >= 0 else 0.0
        arrivals = traffic.shares * rate
        lag = self._lag
        empty_at = inf
        if not np.count_nonzero(lag) and keeps_up(
            arrivals, self.owner, len(self._held), self._pod_rate
        ):
            self.served, self._net = arrivals, self._level
        else:
            self._share(arrivals, changed)
            net = self._net
            left = np.full(len(lag), inf)
            np.divide(lag, -net, out=left, where=net < -_EMPTY_RECORDS)
            empty_at = at + float(left.min())
        following = self._segment + 1
        change_at = traffic.starts[following] if following < len(traffic.starts) else inf
        # A partition that is all but empty must not hold time still.
        self._next_at = min(max(empty_at, at + 1e-9), change_at)
        done = traffic.shares * traffic.count_at(at) - lag
        oldest = at - self._commit_seconds
        while len(self._lines) > 1 and self._lines[1][0] <= oldest:
            del self._lines[0]
        self._lines.append((at, done, self.served))
        self.instants.append(at)
        self.lags.append(lag)

    def _share(self, arrivals: Reals, changed: set[int] | None) -> None:
        """Work out the rates anew, of all pods or only of the ``changed`` ones."""
        demand = np.where(self._lag > 0.0, inf, arrivals).tolist()
        if changed is None:
            served, held = [0.0] * len(demand), self._held
        else:
            served, held = self.served.tolist(), [self._held[pod] for pod in changed if pod >= 0]
        share_fairly(served, demand, held, self._pod_rate)
        self.served = np.array(served)
        self._net = arrivals - self.served
