"""Decide the next steps of a StatefulSet: which pods to create and which to delete now.

The order is that of Kubernetes 1.34: first the pods inside the range of ordinals, then those
outside it from the highest, then the rolling update from the highest. OrderedReady stops at the
first pod that is not available; Parallel continues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """The spec of a StatefulSet, with the names of its two revisions."""

    replicas: int
    current_revision: str
    update_revision: str
    start: int = 0
    is_parallel: bool = False
    partition: int | None = 0
    """None: OnDelete, a pod gets the new revision only after a client has deleted it."""

    @property
    def ordinals(self) -> range:
        """The ordinals of the pods that should exist."""
        return range(self.start, self.start + self.replicas)

    def revision_of(self, ordinal: int) -> str:
        """Return the revision with which a pod is created now."""
        stays = self.partition is not None and ordinal < self.start + self.partition
        return self.current_revision if stays else self.update_revision


@dataclass(frozen=True, slots=True)
class Replica:
    """One existing pod of a StatefulSet."""

    ordinal: int
    revision: str
    is_available: bool = True
    """Running and ready, for ``minReadySeconds``."""
    is_terminating: bool = False
    has_ended: bool = False

    @property
    def is_healthy(self) -> bool:
        """True: an ordered step may follow."""
        return self.is_available and not self.is_terminating


@dataclass(frozen=True, slots=True)
class Steps:
    """Ordinals of the pods to create and to delete now, in this order."""

    create: tuple[int, ...] = ()
    delete: tuple[int, ...] = ()


def next_steps(wanted: Wanted, replicas: Sequence[Replica]) -> Steps:
    """Return what can be done now; each change of a pod asks again."""
    existing = {replica.ordinal: replica for replica in replicas}
    create, delete = list[int](), list[int]()
    for ordinal in wanted.ordinals:
        found = existing.get(ordinal)
        if found is None:
            create.append(ordinal)
        elif found.has_ended and not found.is_terminating:
            delete.append(ordinal)
        is_blocked = found is None or found.has_ended or not found.is_healthy
        if is_blocked and not wanted.is_parallel:
            return Steps(tuple(create), tuple(delete))
    surplus, is_done = _surplus(wanted, existing)
    delete += surplus
    if is_done:
        delete += [ordinal for ordinal in _outdated(wanted, existing) if ordinal not in delete]
    return Steps(tuple(create), tuple(delete))


def _surplus(wanted: Wanted, existing: Mapping[int, Replica]) -> tuple[list[int], bool]:
    """Return the ordinals to remove now, and whether the rolling update may continue."""
    outside = [existing[n] for n in sorted(existing) if n not in wanted.ordinals]
    if wanted.is_parallel:
        return [r.ordinal for r in reversed(outside) if not r.is_terminating], True
    if not outside:
        return [], True
    highest = outside[-1]
    first_unhealthy = next((r for r in outside if not r.is_healthy), highest)
    if highest.is_terminating or (not highest.is_available and highest != first_unhealthy):
        return [], False
    return [highest.ordinal], False


def _outdated(wanted: Wanted, existing: Mapping[int, Replica]) -> list[int]:
    """Return the pod to replace now by one of the new revision: at most one at a time."""
    if wanted.partition is None:
        return []
    for ordinal in reversed(wanted.ordinals[wanted.partition :]):
        found = existing.get(ordinal)
        if found is None:
            return []
        if found.revision != wanted.update_revision and not found.is_terminating:
            return [ordinal]
        if not found.is_healthy:
            return []
    return []
