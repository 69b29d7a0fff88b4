"""Name the event next to a bad message: a rebalance, a SIGTERM, a kill or a commit."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.ownership.holdings import OWNER_PREFIX, Holding
from lagbench.shared_with_spark import message_classes

# The recorder sees a death (once a second) on a clock that may count whole seconds.
_SEEN_LATE_NS = 2_000_000_000

# A commit that ran ahead of the work loses the queued messages: seconds of work. A pod's end
# long after the commit did not cause that loss.
_LOSS_FOLLOWS_WITHIN_NS = 30_000_000_000
_WITHOUT_CAUSE = frozenset(
    {
        message_classes.NOT_YET_CONSUMED,
        message_classes.FAILED,
        *message_classes.ABSENT,
        message_classes.PRODUCED_TWICE,
        message_classes.FOREIGN,
    }
)


class Instant(NamedTuple):
    """An event of a pod."""

    at: int
    cause: str
    pod: str


class Commit(NamedTuple):
    """A move of the group's offset to ``offset``."""

    offset: int
    at: int
    pod: str


class Blame(NamedTuple):
    """The pod and the time (given or found), and the cause; None if unknown."""

    pod: str | None
    at: int | None
    cause: str
    cause_at: int | None
    cause_pod: str | None


@dataclass(frozen=True, slots=True)
class CauseFinder:
    """Instants in order of time: rebalances and commits by partition, fates by pod."""

    rebalances: Mapping[int, Sequence[Instant]]
    fates: Mapping[str, Sequence[Instant]]
    commits: Mapping[int, Sequence[Commit]]

    def blame(
        self,
        kind: str,
        partition: int | None,
        pods: tuple[str | None, str | None],
        rows: Iterable[tuple[int | None, int | None]],
    ) -> list[Blame]:
        """Return the blame for each (offset, at) of one class, partition, pod and other pod."""
        pod, other_pod = pods
        if kind in _WITHOUT_CAUSE or partition is None:
            return [Blame(pod, at, "none", None, None) for _, at in rows]
        if kind == message_classes.LOST:
            return [self._blame_commit(partition, offset) for offset, _ in rows]
        return self._blame_disturbance(kind, partition, pod, other_pod, [at for _, at in rows])

    def _blame_commit(self, partition: int, offset: int | None) -> Blame:
        """Find the commit that gave up the message, and the event that stopped its pod."""
        commits = self.commits.get(partition, ())
        reached = np.fromiter((commit.offset for commit in commits), np.int64, len(commits))
        found = int(np.searchsorted(reached, offset or 0, side="right"))
        if found == len(commits):
            return Blame(None, None, "none", None, None)
        commit = commits[found]
        moves = [i for i in self.rebalances.get(partition, ()) if i.pod == commit.pod]
        ends = [
            instant
            for instant in sorted([*self.fates.get(commit.pod, ()), *moves])
            if 0 <= instant.at - commit.at <= _LOSS_FOLLOWS_WITHIN_NS
        ]
        cause = ends[0] if ends else Instant(commit.at, "commit", commit.pod)
        return Blame(commit.pod, commit.at, cause.cause, cause.at, cause.pod)

    def _blame_disturbance(
        self,
        kind: str,
        partition: int,
        pod: str | None,
        other_pod: str | None,
        instants: Sequence[int | None],
    ) -> list[Blame]:
        """Take the nearest earlier event; for a repeat, the end of the first pod comes first."""
        fates = list(self._fates_of(other_pod))
        if kind == message_classes.DUPLICATED:
            first = _Timeline(fates, _SEEN_LATE_NS)
            second = _Timeline(self.rebalances.get(partition, ()), 0)
        else:
            fates += self._fates_of(pod)
            first = _Timeline([*fates, *self.rebalances.get(partition, ())], 0)
            second = _Timeline((), 0)
        blames = []
        for at in instants:
            cause = None if at is None else first.last_before(at) or second.last_before(at)
            if cause is None:
                blames.append(Blame(pod, at, "none", None, None))
            else:
                blames.append(Blame(pod, at, cause.cause, cause.at, cause.pod))
        return blames

    def _fates_of(self, pod: str | None) -> Sequence[Instant]:
        """Return the fates of a pod, or of all where an output topic stands for the pods."""
        if pod is not None and pod.startswith(OWNER_PREFIX):
            return sorted(instant for fates in self.fates.values() for instant in fates)
        return self.fates.get(pod or "", ())


class _Timeline:
    """Instants in order, searched by bisection."""

    def __init__(self, instants: Iterable[Instant], tolerance_ns: int) -> None:
        self._instants = sorted(set(instants))
        self._tolerance_ns = tolerance_ns
        ats = (instant.at for instant in self._instants)
        self._ats: npt.NDArray[np.int64] = np.fromiter(ats, np.int64, len(self._instants))

    def last_before(self, at: int) -> Instant | None:
        """Return the latest instant at or before ``at`` (plus the tolerance)."""
        found = int(np.searchsorted(self._ats, at + self._tolerance_ns, side="right"))
        return self._instants[found - 1] if found else None


Kills = Mapping[str, Sequence[int]]


class Unledgered(NamedTuple):
    """Upper bound of a killed pod's writes that are in no ledger; ``seconds`` is their time.

    ``messages`` None: the ledger holds no work at all, so no rate is known.
    """

    pod: str
    killed_at: int
    seconds: float
    messages: int | None


class Ledgered(NamedTuple):
    """The work in the ledger of a pod that had been killed ``kills`` times before."""

    pod: str
    kills: int
    most: int  # in its busiest second
    last_at: int


def unledgered_bounds(
    kills: Kills,
    ledgered: Iterable[Ledgered],
    idle: Mapping[str, Sequence[int]],
    held: Iterable[Holding],
) -> list[Unledgered]:
    """Return the bound for each kill, by pod.

    It counts from the last row of the ledger before the kill, or from the last report that nothing
    was queued or begun, if that is later. Without a row the first transaction may be open: then it
    counts from the first assignment, and a pod that never worked had the rate of the busiest one.

    :param idle: when each pod reported that nothing was queued or begun.
    """
    last_at = {(found.pod, found.kills): found.last_at for found in ledgered}
    most: dict[str, int] = defaultdict(int)
    for found in ledgered:
        most[found.pod] = max(most[found.pod], found.most)
    busiest = max(most.values(), default=None)
    assigned: dict[str, list[int]] = defaultdict(list)
    for holding in held:
        assigned[holding.pod].append(holding.from_at)
    unledgered = []
    for pod, instants in sorted(kills.items()):
        for number, killed_at in enumerate(instants):
            before = instants[number - 1] if number else 0
            given = (at for at in assigned[pod] if before < at <= killed_at)
            since_at = last_at.get((pod, number), min(given, default=None))
            if since_at is None:
                continue  # it had nothing to work on
            quiet = (at for at in idle.get(pod, ()) if before < at <= killed_at)
            seconds = (killed_at - max([since_at, *quiet])) / NS_PER_SECOND
            rate = most.get(pod, busiest)
            messages = None if rate is None else math.ceil(seconds * rate)
            unledgered.append(Unledgered(pod, killed_at, seconds, messages))
    return unledgered
