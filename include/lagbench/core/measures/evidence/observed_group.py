"""The subject of a run that only observed a group: lagbench started neither load nor pods.

The manifest of such a run has the field ``observed``. Its load is what the log took, and its group
reports nothing about itself: work comes from committed offsets, members from the broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby, pairwise
from math import ceil
from typing import Any

import numpy as np
from msgspec.structs import replace as replace_fields

from lagbench.core.measures.evidence.lag_readings import LagSeries, cuts_until, growth
from lagbench.core.measures.model import NANOSECONDS, Reals
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    GroupJoined,
    PartitionsAssigned,
    PartitionsRevoked,
    PodStopped,
)
from lagbench.core.telemetry.records_of_recorder import (
    GroupMember,
    GroupMembers,
    GroupSample,
    PodSeen,
)

OBSERVED_FIELD = "observed"
NO_POLICY = "none"
"""The name of the policy of an observed group that nothing scales, or of which none was given."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The observed group; None: not given, or not seen.

    ``pods_at_start`` is the number of replicas, else of members, in the first reading.
    """

    group: str
    topic: str
    deployment: str | None = None
    policy: str | None = None  # kind and name of the object that scales it
    assignor: str | None = None  # as the broker names it
    pods_at_start: int | None = None
    pod_rate_per_second: float | None = None
    policy_unknown: str = ""
    """Why an object that may scale the group could not be read; empty: all were read."""
    lowest_rate_per_second: float | None = None  # of the load
    highest_rate_per_second: float | None = None
    longest_gap_seconds: float | None = None  # between two readings of a partition's end
    pod_rate_source: str = "the group was never busy for long enough to show it"

    def as_dict(self) -> dict[str, Any]:
        """Return the value of the manifest's field."""
        return asdict(self)


def observation_of(manifest: Mapping[str, Any]) -> Observation | None:
    """Return the observation of a run's manifest; None: the run made its own load."""
    found = manifest.get(OBSERVED_FIELD)
    return None if found is None else Observation(**found)


STEP_SECONDS = 5.0
"""Consumers commit every five seconds by default, and rates of a single second are noise."""
_MOST_STEPS = 5_000
BUSY_SECONDS = 2.0
SHORTEST_BUSY_SECONDS = 15.0


def observed_rates(lag: LagSeries, *, from_at: int, until_at: int) -> list[tuple[float, float]]:
    """Return the load as rows of (second after ``from_at``, messages per second).

    The last row ends the load; its rate is 0. Rows are ``STEP_SECONDS`` apart, in a long
    observation a multiple of that: a trace has a longest text. Where a partition is unknown, its
    load between the neighbours is even. Where its log was cut, it took nothing.
    """
    if lag.at.size < 2:
        return []
    length = (until_at - from_at) / NANOSECONDS
    step = STEP_SECONDS * max(1, ceil(length / STEP_SECONDS / _MOST_STEPS))
    seconds = [*np.arange(0.0, max(length - step / 2, step / 2), step)]
    edges = np.array([*seconds, length])
    instants = from_at + edges * NANOSECONDS
    taken = sum((_taken(lag, place, instants) for place in range(lag.partitions.size)), 0 * edges)
    rates = np.diff(taken) / np.diff(edges)
    rows = [
        (round(float(second), 3), round(float(rate), 3))
        for second, rate in zip(seconds, rates, strict=True)
    ]
    return [*rows, (round(length, 3), 0.0)]


def longest_gap_seconds(lag: LagSeries) -> float:
    """Return the longest time between two readings of the end of a partition's log."""
    read = (lag.at[known] for known in ~np.isnan(lag.end_offsets.T))
    return max((float(np.diff(at).max(initial=0)) / NANOSECONDS for at in read), default=0.0)


def observed_shares(lag: LagSeries) -> tuple[float, ...]:
    """Return the share of each partition in what the log took; empty: it took nothing."""
    ends = lag.at[[0, -1]].astype(np.float64)
    taken = [float(_taken(lag, place, ends)[-1]) for place in range(lag.partitions.size)]
    return tuple(one / sum(taken) for one in taken) if sum(taken) > 0 else ()


def _taken(lag: LagSeries, place: int, instants: Reals) -> Reals:
    """Return what a partition's log had taken until each instant."""
    ends = lag.end_offsets[:, place]
    known = ~np.isnan(ends)
    if not known.any():
        return np.zeros_like(instants)
    taken: Reals = np.interp(instants, lag.at[known], growth(ends[known], cuts_until(ends)[known]))
    return taken


@dataclass(frozen=True, slots=True)
class PodRate:
    """The rate of one pod (messages per second; None: not seen), and where it is from."""

    per_second: float | None
    source: str


def observed_pod_rate(records: Sequence[TelemetryRecord], lag: LagSeries) -> PodRate:
    """Return what one member did while work waited for the whole group."""
    total = lag.total
    committed = lag.end_offsets.sum(axis=1) - total
    members = _members(records, lag.at.tolist())
    cuts = np.sum([cuts_until(column) for column in lag.end_offsets.T], axis=0)
    keys = [
        (0 if np.isnan(offsets) else count, number)
        for offsets, count, number in zip(committed, members, cuts.tolist(), strict=True)
    ]
    best = PodRate(None, "the group was never busy for long enough to show it")
    longest, first = 0.0, 0
    for (count, _), same in groupby(keys):
        last = first + len(list(same))
        seconds = (lag.at[first:last] - lag.at[first]) / NANOSECONDS
        found = _busiest(seconds, committed[first:last], total[first:last]) if count else None
        if found is not None and found[0] > longest:
            longest, rate = found
            plural = "s" * (count != 1)
            text = f"{count} member{plural} did {rate:,.0f}/s while busy for {longest:.0f} s"
            best = PodRate(rate / count, text)
        first = last
    return best


def _members(records: Sequence[TelemetryRecord], instants: Sequence[int]) -> list[int]:
    """Return the members of the stable group at each instant; 0: none, or not stable."""
    samples = sorted((r for r in records if isinstance(r, GroupSample)), key=lambda r: r.at)
    at = [sample.at for sample in samples]
    found = []
    for instant in instants:
        place = int(np.searchsorted(at, instant, side="right")) - 1
        sample = samples[place] if place >= 0 else None
        is_settled = sample is not None and sample.state == "stable"
        found.append(sample.members if is_settled and sample is not None else 0)
    return found


def _busiest(seconds: Reals, committed: Reals, lag: Reals) -> tuple[float, float] | None:
    """Return seconds and rate of the longest busy stretch, from its first commit to its last."""
    changes = np.flatnonzero(np.diff(committed) > 0) + 1
    if changes.size < 2:
        return None
    first, last = int(changes[0]), int(changes[-1])
    length = float(seconds[last] - seconds[first])
    if length < SHORTEST_BUSY_SECONDS:
        return None
    rate = float(committed[last] - committed[first]) / length
    idle = first + np.flatnonzero(lag[first : last + 1] < BUSY_SECONDS * rate)
    if not idle.size:
        return length, rate
    edges = [first - 1, *idle.tolist(), last + 1]
    parts = [slice(before + 1, after) for before, after in pairwise(edges)]
    found = [_busiest(seconds[part], committed[part], lag[part]) for part in parts]
    return max((one for one in found if one is not None), default=None)


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
