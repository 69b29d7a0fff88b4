"""Derive what the members of an observed group did from the broker's descriptions of the group.

Its consumers report nothing to lagbench. The recorder describes the group once a second, in a
rebalance five times, so each instant here is that of the first description that shows the change:
up to a second late.

A member has the name of its pod if its client id contains that name, or if it connects from the
address of one pod alone. Several members of one pod are one. Any other member has a name of its
own. While a classic group rebalances, the broker reports no assignment: it is not known then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace as replace_fields

from lagbench.core.telemetry.consumer import (
    GroupJoined,
    PartitionsAssigned,
    PartitionsRevoked,
    PodStopped,
)
from lagbench.core.telemetry.recorder import GroupMember, GroupMembers, GroupSample, PodSeen
from lagbench.core.telemetry.records import TelemetryRecord

_STABLE = "stable"
_ID_CHARACTERS = 8
_SKEW_NS = 5_000_000_000
"""The API server's clock may be ahead of the recorder's by this much."""


def observed_members(records: Sequence[TelemetryRecord]) -> list[TelemetryRecord]:
    """Return joins, assignments, rebalances and ends of members, by instant."""
    by_time = sorted(records, key=lambda record: record.at)
    pods = _Pods.of_records(by_time)
    members = _Members(_client_ids(by_time))
    found: list[TelemetryRecord] = []
    for record in by_time:
        if isinstance(record, GroupSample):
            members.is_stable = record.state == _STABLE
            if not members.is_stable:
                found += members.rebalancing(record.at)
        elif isinstance(record, GroupMembers):
            found += members.described(record, pods)
    return found


def member_pods(records: Sequence[TelemetryRecord]) -> int:
    """Return the most members that were at once known by the name of their pod."""
    by_time = sorted(records, key=lambda record: record.at)
    pods = _Pods.of_records(by_time)
    most = 0
    for record in by_time:
        if isinstance(record, GroupMembers):
            named = [pods.of(member, record.at) for member in record.members]
            most = max(most, sum(name is not None for name in named))
    return most


@dataclass(frozen=True, slots=True)
class _Pods:
    """All pods of the observation: a reading of the group may precede the first one of the pods."""

    lives: Mapping[tuple[str, int], PodSeen]  # by name and creation, as last seen with an address

    @classmethod
    def of_records(cls, records: Iterable[TelemetryRecord]) -> _Pods:
        """Return the pods of records in their order."""
        lives: dict[tuple[str, int], PodSeen] = {}
        for record in records:
            if isinstance(record, PodSeen):
                life = record.pod, record.created_at
                address = record.address or (lives[life].address if life in lives else "")
                lives[life] = replace_fields(record, address=address)
        return cls(lives)

    def of(self, member: GroupMember, at: int) -> str | None:
        """Return the pod of a member; None: not known."""
        named = {pod for pod, _ in self.lives if pod in member.client_id}
        if named:
            return max(named, key=len)
        address = member.host.lstrip("/")
        there = {
            seen.pod
            for seen in self.lives.values()
            if seen.address == address and _is_there(seen, at)
        }
        return there.pop() if address and len(there) == 1 else None


def _is_there(pod: PodSeen, at: int) -> bool:
    """Return whether a pod was there; its creation is of another clock, in whole seconds."""
    return pod.created_at <= at + _SKEW_NS and (pod.gone_at is None or pod.gone_at > at)


def _client_ids(records: Iterable[TelemetryRecord]) -> Mapping[str, set[str]]:
    """Return the member ids by client id."""
    found: dict[str, set[str]] = {}
    for record in records:
        if isinstance(record, GroupMembers):
            for member in record.members:
                found.setdefault(member.client_id, set()).add(member.member_id)
    return found


@dataclass(slots=True)
class _Members:
    """The members of the last description, by name."""

    ids: Mapping[str, set[str]]
    is_stable: bool = True
    _names: dict[str, str] = field(default_factory=dict)  # by member id
    _owned: dict[str, frozenset[int] | None] = field(default_factory=dict)
    _count: int = 0

    def rebalancing(self, at: int) -> Iterator[TelemetryRecord]:
        """Report a rebalance under way; what its members give up in it is not known."""
        for name, owned in self._owned.items():
            yield PartitionsRevoked(
                at=at,
                source=name,
                member_id="",
                partitions=[],
                owned=sorted(owned or ()),
                is_lost=False,
                in_flight=0,
                finish_seconds=0.0,
                rebalance=self._next(),
            )

    def described(self, record: GroupMembers, pods: _Pods) -> Iterator[TelemetryRecord]:
        """Report how the members differ from those of the description before."""
        there: dict[str, set[int]] = {}
        for member in record.members:
            name = self._name(member, pods, record.at)
            there.setdefault(name, set()).update(member.partitions)
        for name in [name for name in self._owned if name not in there]:
            del self._owned[name]
            yield PodStopped(
                at=record.at,
                source=name,
                reason="it is no longer a member",
                abandoned=None,
                processed_total=None,
            )
        for name, partitions in there.items():
            if name not in self._owned:
                self._owned[name] = None
                yield GroupJoined(at=record.at, source=name, member_id="")
            if not self.is_stable and not partitions:
                continue  # a classic group reports no assignment while it rebalances
            before, now = self._owned[name], frozenset(partitions)
            if before != now:
                self._owned[name] = now
                yield PartitionsAssigned(
                    at=record.at,
                    source=name,
                    member_id="",
                    partitions=sorted(now - (before or frozenset())),
                    owned=sorted(now),
                    is_incremental=False,
                    rebalance=self._next(),
                )

    def _name(self, member: GroupMember, pods: _Pods, at: int) -> str:
        if member.member_id not in self._names:
            pod = pods.of(member, at)
            self._names[member.member_id] = self._own_name(member) if pod is None else pod
        return self._names[member.member_id]

    def _own_name(self, member: GroupMember) -> str:
        """Return the client id, with the start of the member id if others have it too."""
        if len(self.ids[member.client_id]) == 1:
            return member.client_id
        unique = member.member_id.removeprefix(f"{member.client_id}-")[:_ID_CHARACTERS]
        return f"{member.client_id}/{unique}"

    def _next(self) -> int:
        self._count += 1
        return self._count
