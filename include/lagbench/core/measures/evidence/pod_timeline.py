"""Compute the timelines of the consumer pods, with each instant as exact as the records allow.

localkube stamps exactly. A cluster writes whole seconds, and the recorder's watch shows a change
after it was made. So an instant lies between the start of its whole second on the recorder's clock
and the first record that shows it, at most a second (plus the skew's bound) apart. The record's
instant is used if it lies inside the second, else the start of the second.

A pod's time ends when the pod's object is removed, which the watch reports. Two cases end it
earlier:

* The pod ends by itself, without a request to delete it: evicted or rejected by its node, or lost
  with it. Its object stays in a final phase, and costs nothing more. In older runs localkube also
  reported a final phase while it started a container again; such a pod is Running later.
* The pod ends while no recorder runs: the next recorder's first list lacks it. That list is the
  latest possible instant of its end, so its time is too long by at most the recorder's absence.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec

from lagbench.core.clocks import ONE_CLOCK, Clock, ClockSet
from lagbench.core.measures.evidence.lag_readings import GAP_SECONDS, telemetry_gaps
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    ActionEnded,
    ActionStarted,
    GroupJoined,
    PartitionsAssigned,
    PartitionsRevoked,
)
from lagbench.core.telemetry.records_of_recorder import (
    ClockOffset,
    GroupMembers,
    PodSeen,
    PodsListed,
)

FINAL_PHASES = frozenset({"Failed", "Succeeded"})
"""A pod in one of these phases starts no more containers."""


@dataclass(frozen=True, slots=True)
class PodTimeline:
    """A consumer pod's instants as Kubernetes reports them; a precision of None is not bounded.

    ``gone_at`` is the end of its time, whether or not its object stayed.
    """

    pod: str
    created_at: int
    ready_at: int | None
    gone_at: int | None
    created_precision_seconds: float | None
    ready_precision_seconds: float | None
    note: str = ""

    def seconds_between(self, from_at: int, until_at: int) -> float:
        """Return the seconds of its time inside [from_at, until_at]."""
        start = max(self.created_at, from_at)
        end = until_at if self.gone_at is None else min(self.gone_at, until_at)
        return max(0, end - start) / NANOSECONDS


def pod_timelines(
    records: Sequence[TelemetryRecord], clocks: ClockSet = ONE_CLOCK
) -> dict[str, PodTimeline]:
    """Return each pod's timeline from its records, by creation.

    Ready is the first time that it was Ready, because a pod that ends is no longer Ready.
    """
    seen_of: dict[str, list[PodSeen]] = {}
    lists: list[PodsListed] = []
    for record in sorted(records, key=lambda record: record.at):
        if isinstance(record, PodSeen):
            seen_of.setdefault(record.pod, []).append(record)
        elif isinstance(record, PodsListed):
            lists.append(record)
    timelines = [_timeline(pod, seen, lists, clocks) for pod, seen in seen_of.items()]
    return {
        timeline.pod: timeline
        for timeline in sorted(timelines, key=lambda timeline: (timeline.created_at, timeline.pod))
    }


def pod_seconds(timelines: Mapping[str, PodTimeline], from_at: int, until_at: int) -> float | None:
    """Return the pods' time inside [from_at, until_at]; None: no pod was ever seen."""
    if not timelines:
        return None
    return sum(timeline.seconds_between(from_at, until_at) for timeline in timelines.values())


def _timeline(
    pod: str, seen: Sequence[PodSeen], lists: Sequence[PodsListed], clocks: ClockSet
) -> PodTimeline:
    last = seen[-1]
    # The API server stamps the creation, the node's kubelet the readiness.
    created_at, created_precision = _first(
        seen, lambda record: record.created_at, clocks.of_api_server()
    )
    ready_at, ready_precision = _first(seen, lambda record: record.ready_at, clocks.of_pod(pod))
    is_exact = last.precision_ns < NANOSECONDS
    return PodTimeline(
        pod=pod,
        created_at=last.created_at if created_at is None else created_at,
        ready_at=ready_at,
        gone_at=_end(seen, lists, clocks.of_pod(pod)),
        created_precision_seconds=created_precision,
        ready_precision_seconds=ready_precision,
        note="" if is_exact else "as the watch showed it, inside the whole second of its stamp",
    )


def _first(
    seen: Sequence[PodSeen], of: Callable[[PodSeen], int | None], clock: Clock | None
) -> tuple[int | None, float | None]:
    """Return the first reported instant and its precision."""
    for record in seen:
        stamp = of(record)
        if stamp is not None:
            if record.precision_ns < NANOSECONDS:
                return stamp, record.precision_ns / NANOSECONDS
            return _bounded(stamp, record.at, clock)
    return None, None


def _end(seen: Sequence[PodSeen], lists: Sequence[PodsListed], clock: Clock | None) -> int | None:
    """Return when a pod's time ended; None: not before its last record."""
    ran = max((place for place, record in enumerate(seen) if record.phase == "Running"), default=0)
    ended = next((record for record in seen[ran:] if _has_ended_by_itself(record)), None)
    if ended is not None:
        if ended.finished_at is None:
            return ended.at
        return _bounded(ended.finished_at, ended.at, clock)[0]
    last = seen[-1]
    if last.gone_at is not None:
        return last.gone_at
    without = (found for found in lists if found.at > last.at and last.pod not in found.pods)
    return next((found.at for found in without), None)


def _has_ended_by_itself(record: PodSeen) -> bool:
    """Return whether it ended before its deletion; a deleted pod ends with its object."""
    if record.phase not in FINAL_PHASES:
        return False
    if record.deleted_at is None:
        return True
    return record.finished_at is not None and record.finished_at < record.deleted_at


def _bounded(stamp: int, seen_at: int, clock: Clock | None) -> tuple[int, float | None]:
    """Return where a stamp of a whole second, seen at ``seen_at``, lies on the recorder's clock."""
    if clock is None:  # not bounded: the stamp adds nothing to a watch that shows it at once
        return (seen_at if 0 <= seen_at - stamp <= NANOSECONDS else stamp), None
    earliest = stamp - clock.bound.high_ns
    latest = stamp + NANOSECONDS - clock.bound.low_ns
    if seen_at < earliest:  # shown before it was stamped: the clock has moved since it was bounded
        return seen_at, None
    if seen_at > latest:
        return earliest, (latest - earliest) / NANOSECONDS
    return seen_at, (seen_at - earliest) / NANOSECONDS


_SUFFIX = " (life "
_FIELD_OF_PODS: Mapping[type[TelemetryRecord], str] = {
    PodsListed: "pods",
    ActionStarted: "targets",
    ActionEnded: "came",
}


@dataclass(frozen=True, slots=True)
class PodLives:
    """When the lives of each pod with more than one began (unix ns), first one first.

    ``created_at`` are the stamps of the pods' objects; a life may begin later in the same second.
    """

    began_at: Mapping[str, Sequence[int]] = field(default_factory=dict)
    created_at: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def name_at(self, pod: str, at: int) -> str:
        """Return the name of the life that ``pod`` had at an instant, or had last before it."""
        began = self.began_at.get(pod)
        return pod if began is None else _name(pod, max(1, bisect_right(began, at)))

    def names(self, pod: str) -> list[str]:
        """Return the names of all lives of a pod."""
        return [_name(pod, number + 1) for number in range(len(self.began_at.get(pod, (0,))))]


def pod_of_life(name: str) -> str:
    """Return the pod's own name."""
    return name.partition(_SUFFIX)[0]


def pod_lives(records: Iterable[TelemetryRecord]) -> PodLives:
    """Return the lives that the records of the pods show; ``records`` ascend by instant."""
    seen: dict[str, dict[int, PodSeen]] = {}
    for record in records:
        if isinstance(record, PodSeen):
            seen.setdefault(record.pod, {})[record.created_at] = record
    several = {pod: lives for pod, lives in seen.items() if len(lives) > 1}
    return PodLives(
        {pod: _beginnings([lives[at] for at in sorted(lives)]) for pod, lives in several.items()},
        {pod: sorted(lives) for pod, lives in several.items()},
    )


def by_life(records: Sequence[TelemetryRecord]) -> list[TelemetryRecord]:
    """Return ``records``, which ascend by instant, with a name of its own for every life."""
    lives = pod_lives(records)
    if not lives.began_at:
        return list(records)
    life_of_member = {
        (record.source, record.member_id): lives.name_at(record.source, record.at)
        for record in records
        if isinstance(record, GroupJoined | PartitionsAssigned | PartitionsRevoked)
    }
    return [_renamed(record, lives, life_of_member) for record in records]


def _renamed(
    record: TelemetryRecord, lives: PodLives, life_of_member: Mapping[tuple[str, str], str]
) -> TelemetryRecord:
    fields = _named_pods(record, lives, life_of_member)
    if record.source in lives.began_at:
        fields["source"] = lives.name_at(record.source, record.at)
    return msgspec.structs.replace(record, **fields) if fields else record


def _named_pods(
    record: TelemetryRecord, lives: PodLives, life_of_member: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    """Return the fields of a record that name pods, with the names of their lives."""
    if isinstance(record, PodSeen):
        created = lives.created_at.get(record.pod, (record.created_at,))
        return {"pod": _name(record.pod, list(created).index(record.created_at) + 1)}
    if isinstance(record, PodsListed | ActionStarted | ActionEnded):
        field = _FIELD_OF_PODS[type(record)]
        return {field: [lives.name_at(pod, record.at) for pod in getattr(record, field)]}
    if isinstance(record, ClockOffset):
        return {"pods": [name for pod in record.pods for name in lives.names(pod)]}
    if isinstance(record, GroupMembers):
        names = [
            life_of_member.get(
                (member.client_id, member.member_id), lives.name_at(member.client_id, record.at)
            )
            for member in record.members
        ]
        changed = zip(record.members, names, strict=True)
        return {"members": [msgspec.structs.replace(m, client_id=name) for m, name in changed]}
    return {}


def _beginnings(lives: Sequence[PodSeen]) -> list[int]:
    """Return when each life began, from the last record of each.

    A stamp of a whole second may lie before the end of the life before; then that end counts.
    """
    began = [lives[0].created_at]
    for before, life in pairwise(lives):
        reach = 0 if life.precision_ns < NANOSECONDS else life.precision_ns
        gone_at = life.created_at if before.gone_at is None else before.gone_at
        began.append(min(max(life.created_at, gone_at), life.created_at + reach))
    return began


def _name(pod: str, number: int) -> str:
    return pod if number == 1 else f"{pod}{_SUFFIX}{number})"


NAMED_PODS = 3


def lost_rebalances(records: Sequence[TelemetryRecord]) -> str:
    """Return the pods with an unrecorded rebalance; empty: none.

    Each pod counts its rebalances from 1, and reports the partitions it owns after each. An eager
    rebalance revokes everything and then assigns: two records with one number. A restarted
    container counts from 1 again.
    """
    moves: dict[str, list[PartitionsAssigned | PartitionsRevoked]] = {}
    for record in records:
        if isinstance(record, PartitionsAssigned | PartitionsRevoked):
            moves.setdefault(record.source, []).append(record)
    broken = []
    for pod, own in sorted(moves.items()):
        count, owned, is_open = 0, set[int](), False
        for move in sorted(own, key=lambda record: record.at):
            is_eager = isinstance(move, PartitionsAssigned) and not move.is_incremental
            ends_one = is_open and is_eager and move.rebalance == count
            if move.rebalance == 1 and not ends_one:
                count, owned = 0, set()
            count += not ends_one
            is_open = isinstance(move, PartitionsRevoked)
            is_unrevoked = is_eager and bool(owned)
            if isinstance(move, PartitionsRevoked):
                owned = owned - set(move.partitions)
            else:
                owned = owned | set(move.partitions) if move.is_incremental else set(move.owned)
            if is_unrevoked or move.rebalance != count or owned != set(move.owned):
                broken.append(pod)
                break
    if not broken:
        return ""
    return f"rebalances of {_named(broken)} are not recorded"


def _named(pods: Sequence[str]) -> str:
    more = len(pods) - NAMED_PODS
    return ", ".join(pods[:NAMED_PODS]) + (f" and {more} more" if more > 0 else "")


def unrecorded_members(
    records: Sequence[TelemetryRecord], accounting: Mapping[str, Any] | None
) -> str:
    """Return the pods that worked without any record of an assignment; empty: none.

    Their arrival and their partitions are unknown, so the expected effect of a scale step is
    unknown too.
    """
    assigned = {record.source for record in records if isinstance(record, PartitionsAssigned)}
    by_pod = (accounting or {}).get("by_pod") or {}
    worked = {pod for pod, work in by_pod.items() if work.get("processed")}
    unknown = sorted(worked - assigned)
    if not assigned or not unknown:  # none at all: each user reports that itself
        return ""
    return f"what partitions were assigned to {_named(unknown)} is not recorded, but they worked"


def unwatched_text(
    records: Sequence[TelemetryRecord],
    timelines: Collection[str],
    from_at: int,
    until_at: int,
    *,
    members_are_pods: bool,
) -> str:
    """Return why not all pods of [from_at, until_at] have a timeline; empty when they have one.

    :param timelines: names of the pods that have one.
    :param members_are_pods: the members of the group report themselves by the names of their pods;
        others are named by their client ids.
    """
    if not any(isinstance(record, PodSeen) for record in records):
        return "the pods were not watched: no record of them"
    if members_are_pods:
        members = {r.source for r in records if isinstance(r, GroupJoined | PartitionsAssigned)}
        if unseen := sorted(members.difference(timelines)):
            return f"the pods' watch has no record of {_named(unseen)}"
    for gap in telemetry_gaps(records, from_at=from_at, until_at=until_at):
        # A list follows on a shorter one, and has each pod that lived longer.
        if gap.what == "pods" and gap.gap_seconds > GAP_SECONDS:
            return f"no reading of the pods for {gap.gap_seconds:.1f} s: {gap.reason}"
    return ""
