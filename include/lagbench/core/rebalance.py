"""Rebalance episodes: when they began and ended, who came and went, what set them off.

An episode runs from the first event of the group (a join, revoke, SIGTERM, or the death of a
member) to the last event after which every partition has an owner, every member an assignment,
and nothing happens for QUIET_SECONDS. While a partition has no owner the episode stays open, for
at most LONGEST_PAUSE_SECONDS between two events (a killed member is noticed after its session
timeout, 45 s by default); while only a new member waits, for at most HEARTBEAT_SECONDS (under
KIP-848 the old owners hear of it at their next heartbeat, 5 s by default).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lagbench.core.group_events import GroupEvent, GroupState
from lagbench.core.measures import NANOSECONDS, ReplicaChange
from lagbench.core.scaling_measures import EpisodeTrigger, RebalanceProtocol

QUIET_SECONDS = 2.0
HEARTBEAT_SECONDS = 6.0
LONGEST_PAUSE_SECONDS = 60.0
TRIGGER_REACH_SECONDS = 120.0
"""A pod that joins belongs to a scale step at most this long ago (image pull, slow start)."""
STAMP_SLACK_SECONDS = 1.0
"""How much later than the change itself its stamp may be."""


@dataclass(frozen=True, slots=True)
class EpisodeSpan:
    """An episode without its dip."""

    started_at: int
    ended_at: int | None  # None: a partition was left without an owner
    joined: tuple[str, ...]
    left: tuple[str, ...]
    died: tuple[str, ...]
    members_before: int
    members_after: int
    partitions_moved: int
    unowned: tuple[int, ...]


def episode_spans(events: Sequence[GroupEvent], partitions: int) -> list[EpisodeSpan]:
    """Return the episodes in ``events`` (ascending by instant)."""
    spans: list[EpisodeSpan] = []
    state, index = GroupState(), 0
    while index < len(events):
        members, owner = set(state.members), dict(state.owner)
        first = index
        state.apply(events[index])
        index += 1
        while index < len(events) and _belongs(events[index - 1], events[index], state, partitions):
            state.apply(events[index])
            index += 1
        spans.append(_span(events[first:index], members, owner, state, partitions))
    return spans


def _belongs(last: GroupEvent, following: GroupEvent, state: GroupState, partitions: int) -> bool:
    allowed = QUIET_SECONDS
    if state.unowned(partitions):
        allowed = LONGEST_PAUSE_SECONDS
    elif state.waiting:
        allowed = HEARTBEAT_SECONDS
    return (following.at - last.at) / NANOSECONDS <= allowed


def _span(
    events: Sequence[GroupEvent],
    members: set[str],
    owner: dict[int, str],
    state: GroupState,
    partitions: int,
) -> EpisodeSpan:
    came = {event.pod for event in events if event.kind in ("joined", "assigned")} - members
    died = {event.pod for event in events if event.kind == "died"}
    left = {event.pod for event in events if event.kind in ("left", "sigterm")} - died
    moved = [p for p, pod in state.owner.items() if owner.get(p, pod) != pod]
    unowned = tuple(state.unowned(partitions))
    return EpisodeSpan(
        started_at=events[0].at,
        ended_at=None if unowned else events[-1].at,
        joined=tuple(sorted(came)),
        left=tuple(sorted(left)),
        died=tuple(sorted(died)),
        members_before=len(members),
        members_after=len(state.members),
        partitions_moved=len(moved),
        unowned=unowned,
    )


def episode_trigger(
    span: EpisodeSpan, changes: Sequence[ReplicaChange]
) -> tuple[EpisodeTrigger, str]:
    """Return what set the episode off: a death before a scale step, a scale step before all else.

    ``start``: there was no member before. A join or a leave without a scale step in the right
    direction in the 120 s before its end is ``other`` (a pod was deleted or replaced by hand).
    """
    if span.members_before == 0:
        return "start", f"the first {span.members_after} members joined"
    if span.died:
        return "pod_death", f"{', '.join(span.died)} died without leaving the group"
    until_at = span.ended_at if span.ended_at is not None else span.started_at
    since_at = span.started_at - round(TRIGGER_REACH_SECONDS * NANOSECONDS)
    reach = [c for c in changes if since_at <= c.at and _earliest_at(c) <= until_at]
    ups = [change for change in reach if change.replicas_after > change.replicas_before]
    downs = [change for change in reach if change.replicas_after < change.replicas_before]
    if span.joined and ups:
        return "scale_up", _step_text(ups[-1], span)
    if span.left and downs:
        return "scale_down", _step_text(downs[-1], span)
    return "other", _unexplained(span)


def _earliest_at(change: ReplicaChange) -> int:
    """Return the earliest instant of the change: its stamp may follow the change itself.

    The autoscaler stamps after the API server's answer; pods were seen leaving 75 ms before it.
    """
    slack_seconds = max(change.precision_seconds, STAMP_SLACK_SECONDS)
    return change.at - round(slack_seconds * NANOSECONDS)


def _unexplained(span: EpisodeSpan) -> str:
    if span.joined:
        return f"{', '.join(span.joined)} joined without a scale step"
    if span.left:
        return f"{', '.join(span.left)} left without a scale step"
    return "partitions moved, but nobody joined or left"


def _step_text(change: ReplicaChange, span: EpisodeSpan) -> str:
    steps = f"{change.replicas_before} to {change.replicas_after} replicas by {change.by}"
    moves = [f"{len(pods)} {verb}" for pods, verb in ((span.joined, "joined"), (span.left, "left"))]
    return f"{steps}; {', '.join(move for move in moves if not move.startswith('0 '))}"


def rebalance_protocol(balancer: str) -> RebalanceProtocol | None:
    """Return how ``balancer`` hands partitions over; None for an unknown name."""
    known: dict[str, RebalanceProtocol] = {
        "range": "eager",
        "roundrobin": "eager",
        "cooperative-sticky": "cooperative",
        "consumer": "consumer",
    }
    return known.get(balancer)
