"""What a controller made of a lag history: how often it changed its mind, and how far off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.cluster.stability.histories import wanted

SYNC_SECONDS = 15.0
Track = Sequence[tuple[float, int]]
"""Replicas from an instant on, in seconds of the history; the first entry is at or before 0."""


@dataclass(frozen=True, slots=True)
class Score:
    """One object's answer to one history."""

    changes: int
    reversals: int
    first_change_seconds: float | None
    highest: int
    over_pod_seconds: float
    under_pod_seconds: float


def score(track: Track, lags: Sequence[int], *, change_from: float = 0.0) -> Score:
    """Return the score; the first change counts from ``change_from`` on.

    Over and under are measured against ``wanted`` at each instant, which nobody can meet.
    """
    moves = [(at, after - before) for (_, before), (at, after) in pairwise(track) if at > 0]
    signs = [delta > 0 for _, delta in moves if delta]
    later = [at for at, _ in moves if at >= change_from]
    over = under = 0.0
    for second, lag in enumerate(lags):
        for seconds, replicas in _during(track, second):
            off = replicas - wanted(lag)
            over += max(0, off) * seconds
            under += max(0, -off) * seconds
    return Score(
        changes=len(moves),
        reversals=sum(a != b for a, b in pairwise(signs)),
        first_change_seconds=later[0] - change_from if later else None,
        highest=max(replicas for at, replicas in _from_start(track)),
        over_pod_seconds=over,
        under_pod_seconds=under,
    )


@dataclass(frozen=True, slots=True)
class Gap:
    """For how long two tracks differed, and by how many replicas on average of the whole time."""

    seconds: float
    mean_replicas: float


def gap_of(one: Track, other: Track, length_seconds: int) -> Gap:
    """Return how two tracks differed from the start to ``length_seconds``."""
    edges = sorted({0.0, float(length_seconds)} | {at for at, _ in (*one, *other) if at > 0})
    pieces = [
        (until - since, abs(_at(one, since) - _at(other, since)))
        for since, until in pairwise(edge for edge in edges if edge <= length_seconds)
    ]
    return Gap(
        seconds=sum(seconds for seconds, off in pieces if off),
        mean_replicas=sum(seconds * off for seconds, off in pieces) / length_seconds,
    )


def sync_distance_seconds(one: Track, other: Track) -> float | None:
    """Return how far apart two controllers looked, from their first changes; None without any.

    A change is made at a sync, and syncs come every 15 s, so it is at most half of that.
    """
    firsts = [next((at for at, _ in track if at > 0), None) for track in (one, other)]
    if firsts[0] is None or firsts[1] is None:
        return None
    distance = abs(firsts[0] - firsts[1]) % SYNC_SECONDS
    return min(distance, SYNC_SECONDS - distance)


def _at(track: Track, instant: float) -> int:
    return next(replicas for at, replicas in reversed(track) if at <= instant)


def _from_start(track: Track) -> list[tuple[float, int]]:
    return [(0.0, _at(track, 0.0)), *((at, replicas) for at, replicas in track if at > 0)]


def _during(track: Track, second: int) -> list[tuple[float, int]]:
    """Return (duration, replicas) of the pieces of one second."""
    edges = [float(second), *(at for at, _ in track if second < at < second + 1), second + 1.0]
    return [(until - since, _at(track, since)) for since, until in pairwise(edges)]
