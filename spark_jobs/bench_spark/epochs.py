"""Epochs: one ownership of a partition by a pod, and who owned it next.

An epoch begins with an assignment that the pod reported. Work from before any report belongs to
one epoch that begins with the member's first work on the partition. There are as many epochs as
assignments, so they are compared here and not in Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """From one reported assignment of a partition to a pod until its next one (None: none)."""

    partition: int
    pod: str
    from_at: int
    until_at: int | None


class Epoch(NamedTuple):
    """What a pod did in one ownership; ``began_at`` is its first work."""

    partition: int
    pod: str
    epoch: int
    began_at: int
    processed: int


class Rival(NamedTuple):
    """The first work of a later owner, for one epoch."""

    partition: int
    pod: str
    epoch: int
    next_pod: str
    next_began_at: int


def spans_of(assignments: Iterable[tuple[int, str, int]]) -> list[Span]:
    """Return the spans of assignments, given as (partition, pod, at)."""
    instants: dict[tuple[int, str], set[int]] = defaultdict(set)
    for partition, pod, at in assignments:
        instants[partition, pod].add(at)
    spans = []
    for (partition, pod), ats in sorted(instants.items()):
        ordered = sorted(ats)
        for from_at, until_at in zip(ordered, [*ordered[1:], None], strict=True):
            spans.append(Span(partition, pod, from_at, until_at))
    return spans


def rivals_of(epochs: Iterable[Epoch], spans: Iterable[Span]) -> list[Rival]:
    """Return the rival of every epoch that has one; an epoch without work can have one too."""
    worked = list(epochs)
    later_by_partition: dict[int, list[Epoch]] = defaultdict(list)
    for epoch in worked:
        later_by_partition[epoch.partition].append(epoch)
    every = {(e.partition, e.pod, e.epoch) for e in worked}
    every |= {(span.partition, span.pod, span.from_at) for span in spans}
    rivals = []
    for partition, pod, begun in sorted(every):
        later = [
            (other.began_at, other.pod)
            for other in later_by_partition[partition]
            if other.pod != pod and other.epoch > begun
        ]
        if later:
            began_at, next_pod = min(later)
            rivals.append(Rival(partition, pod, begun, next_pod, began_at))
    return rivals
