"""Replay membership and ownership of the consumer group from the pods' own records.

A pod is a member from its first join or assignment until it stopped. A killed pod reports nothing,
so it is a member until the end that Kubernetes reports (``evidence/pod_timeline.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lagbench.core.clocks import ONE_CLOCK, ClockSet
from lagbench.core.measures.evidence.pod_timeline import pod_timelines
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    GroupJoined,
    PartitionsAssigned,
    PartitionsRevoked,
    Phase,
    PodStopped,
    SigtermReceived,
)

EventKind = Literal["joined", "assigned", "revoking", "revoked", "sigterm", "left", "died"]


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """An event of a member; ``owned`` are its partitions afterwards, if it reported them."""

    at: int
    pod: str
    kind: EventKind
    owned: frozenset[int] | None = None


@dataclass(slots=True)
class GroupState:
    """Members and partition owners after the events applied so far."""

    members: set[str] = field(default_factory=set)
    owner: dict[int, str] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)  # members without any assignment yet

    def apply(self, event: GroupEvent) -> None:
        """Apply ``event``; a newer assignment overrides an owner that is silent."""
        if event.kind in ("left", "died"):
            self.members.discard(event.pod)
            self.waiting.discard(event.pod)
            self._keep_only(event.pod, frozenset())
            return
        if event.kind == "joined" and event.pod not in self.members:
            self.waiting.add(event.pod)
        elif event.kind in ("assigned", "sigterm"):
            self.waiting.discard(event.pod)
        if event.kind != "sigterm":
            self.members.add(event.pod)
        if event.owned is not None:
            self._keep_only(event.pod, event.owned)
            self.owner.update(dict.fromkeys(event.owned, event.pod))

    def idle_members(self) -> set[str]:
        """Return the members that own nothing."""
        return self.members - set(self.owner.values())

    def _keep_only(self, pod: str, owned: frozenset[int]) -> None:
        for partition in [p for p, holder in self.owner.items() if holder == pod]:
            if partition not in owned:
                del self.owner[partition]


def group_events(
    records: Sequence[TelemetryRecord], clocks: ClockSet = ONE_CLOCK
) -> list[GroupEvent]:
    """Return the events of the group, by instant."""
    return sorted([*_reported(records), *_deaths(records, clocks)], key=lambda event: event.at)


def _reported(records: Sequence[TelemetryRecord]) -> Iterator[GroupEvent]:
    for record in records:
        if isinstance(record, GroupJoined):
            yield GroupEvent(record.at, record.source, "joined")
        elif isinstance(record, PartitionsAssigned):
            yield GroupEvent(record.at, record.source, "assigned", frozenset(record.owned))
        elif isinstance(record, PartitionsRevoked):
            # The record is sent when the work in flight is done; the revoke began before.
            began_at = record.at - round(record.finish_seconds * NANOSECONDS)
            yield GroupEvent(began_at, record.source, "revoking")
            yield GroupEvent(record.at, record.source, "revoked", frozenset(record.owned))
        elif isinstance(record, SigtermReceived):
            yield GroupEvent(record.at, record.source, "sigterm")
        elif isinstance(record, PodStopped):
            yield GroupEvent(record.at, record.source, "left")


def _deaths(records: Sequence[TelemetryRecord], clocks: ClockSet) -> Iterator[GroupEvent]:
    """Yield the end of pods that were members and never reported that they stopped.

    Only records after a pod's last join or assignment count, because a restarted container becomes
    a member again.
    """
    member_at = _last_at(records, GroupJoined, PartitionsAssigned)
    reported_at = _last_at(records, PodStopped)
    asked_at = _last_at(records, SigtermReceived)
    for pod, timeline in pod_timelines(records, clocks).items():
        since_at = member_at.get(pod)
        if (
            timeline.gone_at is None
            or since_at is None
            or reported_at.get(pod, since_at - 1) >= since_at
        ):
            continue
        was_asked = asked_at.get(pod, since_at - 1) >= since_at
        yield GroupEvent(timeline.gone_at, pod, "left" if was_asked else "died")


def _last_at(records: Sequence[TelemetryRecord], *kinds: type[TelemetryRecord]) -> dict[str, int]:
    """Return when each source last sent a record of ``kinds``."""
    last: dict[str, int] = {}
    for record in records:
        if isinstance(record, kinds):
            last[record.source] = max(record.at, last.get(record.source, record.at))
    return last


STOPPING_PHASE = "fence_run"


def measured_until(
    records: Sequence[TelemetryRecord],
    events: Sequence[GroupEvent],
    *,
    stream_ended_at: int | None,
    may_scale_to_zero: bool,
) -> int | None:
    """Return the end of the measurement window; None without any record."""
    stops = [
        record.at
        for record in records
        if isinstance(record, Phase) and record.name == STOPPING_PHASE and record.state == "started"
    ]
    if stops:
        return stops[0]
    if not may_scale_to_zero:
        stop_at = _final_stop(events, stream_ended_at)
        if stop_at is not None:
            return stop_at
    return max((record.at for record in records), default=None)


def _final_stop(events: Sequence[GroupEvent], stream_ended_at: int | None) -> int | None:
    """Return the first SIGTERM of the last period in which members only left, down to none."""
    state = GroupState()
    for event in events:
        state.apply(event)
    if state.members:
        return None
    first: int | None = None
    for event in reversed(events):
        if event.kind in ("joined", "died") or (event.kind == "assigned" and event.owned):
            break
        if event.kind == "sigterm" and (stream_ended_at is None or event.at >= stream_ended_at):
            first = event.at
    return first
