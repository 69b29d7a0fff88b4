"""Determine epochs: each ownership of a partition by a pod, and its next owner.

An epoch begins with an assignment that the pod reported. Work outside every reported epoch belongs
to a separate epoch, which begins with the member's first such work. That epoch is not a next owner
while another pod reports that it held the partition, so that one wrong row of the ledger counts as
one. Work in a period with a hole in the pod's records is in no epoch: its owner is unknown. There
are as many epochs as assignments, so they are compared here and not in Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lagbench.core.clocks import ClockSet
from lagbench.core.ownership.holdings import Holding, Holdings, Hole
from lagbench.core.ownership.owners import clock_of


class Span(NamedTuple):
    """From one reported assignment of a partition to a pod until its next one (None: none)."""

    partition: int
    pod: str
    from_at: int
    until_at: int | None
    is_known: bool = True


class Epoch(NamedTuple):
    """A pod's work in one ownership; ``began_at`` is its first work."""

    partition: int
    pod: str
    epoch: int
    began_at: int
    processed: int
    is_reported: bool = True
    is_known: bool = True


class Rival(NamedTuple):
    """The first work of a later owner, for one epoch."""

    partition: int
    pod: str
    epoch: int
    next_pod: str
    next_began_at: int
    error_ns: int | None = 0  # of the two pods' clocks together; None: one is not bounded


def spans_of(found: Holdings, partitions: Iterable[int]) -> list[Span]:
    """Return the spans that date the work: holdings, each until the pod's next one, and holes."""
    starts: dict[tuple[int, str], set[tuple[int, bool]]] = defaultdict(set)
    for held in found.held:
        starts[held.partition, held.pod].add((held.from_at, True))
    for hole in found.holes:
        for partition in hole.partitions if hole.partitions is not None else partitions:
            known = starts[partition, hole.pod]
            from_at = 0 if hole.from_at is None else hole.from_at
            known -= {start for start in known if from_at <= start[0] < hole.until_at}
            known.add((from_at, False))
            if not any(at == hole.until_at for at, _ in known):
                known.add((hole.until_at, True))
    spans = []
    for (partition, pod), begun in sorted(starts.items()):
        ordered = sorted(begun)
        ends: list[int | None] = [at for at, _ in ordered[1:]]
        for (from_at, is_known), until_at in zip(ordered, [*ends, None], strict=True):
            spans.append(Span(partition, pod, from_at, until_at, is_known))
    return spans


def rivals_of(
    epochs: Iterable[Epoch], spans: Iterable[Span], found: Holdings, clocks: ClockSet
) -> list[Rival]:
    """Return the rival of every epoch that has one; an epoch without work can have one too."""
    worked = [epoch for epoch in epochs if epoch.is_known]
    work_on: dict[int, list[Epoch]] = defaultdict(list)
    for epoch in worked:
        work_on[epoch.partition].append(epoch)
    held_on: dict[int, list[Holding]] = defaultdict(list)
    for held in found.held:
        held_on[held.partition].append(held)
    every = {(e.partition, e.pod, e.epoch, e.is_reported) for e in worked}
    every |= {(s.partition, s.pod, s.from_at, True) for s in spans if s.is_known}
    rivals = []
    for partition, pod, begun, is_reported in sorted(every):
        later = [
            (other.began_at, other.pod)
            for other in work_on[partition]
            if other.pod != pod and _follows(other, begun, is_reported, held_on[partition])
        ]
        if later:
            began_at, next_pod = min(later)
            error_ns = _error_ns(clocks, pod, next_pod)
            rivals.append(Rival(partition, pod, begun, next_pod, began_at, error_ns))
    return rivals


def _follows(other: Epoch, begun: int, is_reported: bool, held: Sequence[Holding]) -> bool:
    """Return whether an epoch is a later owner for one that began at ``begun``.

    Work that no record covers intrudes on the pod that held the partition when the work began.
    """
    if other.is_reported:
        is_intruded = not is_reported and any(
            (h.pod, h.from_at) == (other.pod, other.epoch) and _holds(h, begun) for h in held
        )
        return other.epoch > begun or is_intruded
    is_free = not any(h.pod != other.pod and _holds(h, other.began_at) for h in held)
    return other.epoch > begun and is_free


def _holds(held: Holding, at: int) -> bool:
    return held.from_at <= at and (held.until_at is None or at < held.until_at)


def _error_ns(clocks: ClockSet, pod: str, next_pod: str) -> int | None:
    found = clock_of(pod, clocks), clock_of(next_pod, clocks)
    if found[0] is None or found[1] is None:
        return None
    return found[0].error_ns + found[1].error_ns


def unknown_work(epochs: Iterable[Epoch], holes: Iterable[Hole]) -> list[Hole]:
    """Return the holes within which their pod worked on a partition that may have moved."""
    worked = [epoch for epoch in epochs if not epoch.is_known]
    found = []
    for hole in holes:
        from_at = 0 if hole.from_at is None else hole.from_at
        partitions = {
            epoch.partition
            for epoch in worked
            if (epoch.pod, epoch.epoch) == (hole.pod, from_at)
            and (hole.partitions is None or epoch.partition in hole.partitions)
        }
        if partitions:
            found.append(hole._replace(partitions=frozenset(partitions)))
    return found
