"""Bound the work of killed pods that is missing in the ledger.

A write is in the ledger only when its batch, or its transaction, is. The next owner repeats the
work that a killed pod had done since then, and no record shows it. The upper bound is the pod's
busiest second, for the whole time in which it was not heard of.

A container that was killed is started again in its pod: its later work and reports are those of
another process. So each kill is bounded by what happened since the kill before.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lagbench.core.kubernetes.instants import NS_PER_SECOND
from lagbench.core.ownership.holdings import Holding

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
