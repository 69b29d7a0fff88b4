"""Distinguish the lives of a pod: a StatefulSet gives a new pod the name of an earlier one.

Measures identify a pod by its name. So each life after the first gets a name of its own in the
records, for example ``consumer-3 (life 2)``; a pod with one life keeps its name. A container that
is started again in its pod does not begin a new life.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec

from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.telemetry.actions import ActionEnded, ActionStarted
from lagbench.core.telemetry.consumer import GroupJoined, PartitionsAssigned, PartitionsRevoked
from lagbench.core.telemetry.recorder import ClockOffset, GroupMembers, PodSeen, PodsListed
from lagbench.core.telemetry.records import TelemetryRecord

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
