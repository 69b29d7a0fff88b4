"""Determine the pod that would work on each partition without the rebalance.

* The old owner counts until the new one is assigned: the time in between, in which no pod may work,
  is the cost of a rebalance.
* From an owner's SIGTERM on, its partitions count for their next owner, if that pod has others by
  then; a pod that has none counts from the instant at which it owns its first.
* A partition without a known owner counts for no pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagbench.core.measures.evidence.group_events import GroupEvent
from lagbench.core.measures.evidence.series import BIN_NS

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
