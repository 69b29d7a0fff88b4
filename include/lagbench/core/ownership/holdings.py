"""Replay which pod held which partition when, from each pod's own records of its rebalances.

Every record has the partitions that the pod owns afterwards and a number that counts its
rebalances. A missing record is therefore noticed: the number skips, or the pod gives up a partition
that it never had. The partitions of the pod between the two records around the hole are then
unknown, and no pod is blamed for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lagbench.core.clocks import ONE_CLOCK, Clock, ClockSet


class Move(NamedTuple):
    """A record of a rebalance; ``owned`` is what the pod holds after it."""

    at: int
    pod: str
    is_assignment: bool
    partitions: tuple[int, ...]
    owned: frozenset[int]
    is_incremental: bool
    number: int

    @property
    def is_full(self) -> bool:
        """True: it replaces all that the pod held, and so does not show the state before."""
        return self.is_assignment and not self.is_incremental


class Holding(NamedTuple):
    """A holding of a partition by a pod; ``until_at`` None: no record of its end."""

    partition: int
    pod: str
    from_at: int
    until_at: int | None


class Hole(NamedTuple):
    """A hole in a pod's records; ``partitions`` None: any may have moved meanwhile."""

    pod: str
    from_at: int | None  # None: from its start
    until_at: int
    partitions: frozenset[int] | None


@dataclass(frozen=True, slots=True)
class Holdings:
    """The reported holdings of the pods, and the holes in their records."""

    held: Sequence[Holding]
    holes: Sequence[Hole]


def holdings(moves: Iterable[Move], ends: Mapping[str, int]) -> Holdings:
    """Return the holdings; ``ends``: when a pod stopped or was killed, if that is known."""
    of_pod: dict[str, list[Move]] = defaultdict(list)
    for move in sorted(moves, key=lambda move: (move.at, move.number)):
        of_pod[move.pod].append(move)
    held: list[Holding] = []
    holes: list[Hole] = []
    for pod in sorted(of_pod):
        found, missing = _replay(of_pod[pod], ends.get(pod))
        held += found
        holes += missing
    return Holdings(_closed(held), holes)


def _replay(moves: Sequence[Move], ended_at: int | None) -> tuple[list[Holding], list[Hole]]:
    held: list[Holding] = []
    holes: list[Hole] = []
    since: dict[int, int] = {}
    last: Move | None = None
    heard_at: int | None = None  # the pod's last record, from any of its processes

    def close(partitions: Iterable[int], at: int | None) -> None:
        ended = sorted(partitions)
        held.extend(Holding(p, moves[0].pod, since.pop(p), at) for p in ended)

    for move in moves:
        if last is not None and _is_new_process(last, move):
            close(set(since), move.at)
            last = None
        hole = _hole(last, move, heard_at)
        if hole is not None:
            holes.append(hole)
            moved = set(since) if hole.partitions is None else set(since) & hole.partitions
            close(moved, hole.from_at)
        close(set(since) - _before(move), None if last is None else move.at)
        since.update(dict.fromkeys(_before(move) - set(since), move.at))
        close(set(since) - move.owned, move.at)
        since.update(dict.fromkeys(move.owned - set(since), move.at))
        last, heard_at = move, move.at
    is_reported = ended_at is not None and heard_at is not None and ended_at >= heard_at
    close(set(since), ended_at if is_reported else None)
    return held, holes


def _is_new_process(last: Move, move: Move) -> bool:
    """Return whether the pod's container was restarted: it counts from 1 again."""
    return move.number <= last.number and move.number != _next_number(last, move)


def _next_number(last: Move, move: Move) -> int:
    """Return the number after ``last``: a full revocation and its assignment share one."""
    is_answer = move.is_full and not last.is_assignment
    return last.number if is_answer else last.number + 1


def _before(move: Move) -> frozenset[int]:
    """Return the pod's partitions just before, as implied by the record itself."""
    if not move.is_assignment:
        return move.owned | frozenset(move.partitions)
    return frozenset() if move.is_full else move.owned - frozenset(move.partitions)


def _hole(last: Move | None, move: Move, heard_at: int | None) -> Hole | None:
    """Return the hole between two neighbouring records, if a record is missing there.

    One missing record can only have given the pod the partitions that the next one implies.
    """
    missing = move.number - (1 if last is None else _next_number(last, move))
    if missing > 1 or (missing > 0 and move.is_full):
        return Hole(move.pod, heard_at, move.at, None)
    gained = _before(move) - (frozenset() if last is None else last.owned)
    return Hole(move.pod, heard_at, move.at, gained) if gained else None


def _closed(held: Iterable[Holding]) -> list[Holding]:
    """End each holding without a recorded end when another pod gets the partition."""
    ordered = sorted(held, key=lambda found: (found.partition, found.from_at, found.pod))
    closed = []
    for found in ordered:
        if found.until_at is not None:
            closed.append(found)
            continue
        heirs = (
            other.from_at
            for other in ordered
            if (other.partition, other.pod != found.pod) == (found.partition, True)
            and other.from_at > found.from_at
        )
        closed.append(found._replace(until_at=min(heirs, default=None)))
    return closed


OWNER_PREFIX = "output-"
"""Begins the name that stands for the pods of an output topic's partition."""


def clock_of(owner: str, clocks: ClockSet) -> Clock | None:
    """Return the clock that stamped an owner's work; None: it is not bounded.

    A partition of the output topic has the stamps of the broker: all of them are of one clock, and
    only compared with each other.
    """
    return (ONE_CLOCK if owner.startswith(OWNER_PREFIX) else clocks).of_pod(owner)


def most_error_ns(owners: Iterable[str], clocks: ClockSet) -> int:
    """Return the largest error between two of their stamps, as far as they are bounded."""
    bounded = [clock for owner in owners if (clock := clock_of(owner, clocks)) is not None]
    return 2 * max((clock.error_ns for clock in bounded), default=0)


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
