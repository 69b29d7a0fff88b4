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
