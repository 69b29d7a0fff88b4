"""Find members of the consumer group that are not pods of the run.

Any member of the group takes partitions and commits offsets. Neither the policy nor the pods cause
the effect of a stranger on its messages. The recorder reports the members whenever they change. A
member belongs to the run if its client id is the name of a pod in any record, even a later one. If
no record names the members (consumers of a user without the pod's name), their number decides: it
reveals a stranger if it exceeds the most that the run's pods, recorded or counted as replicas, can
be, in three or more consecutive readings over more than a second. (A group in a rebalance is read
five times a second.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from lagbench.core.measures.evidence.lag_readings import GAP_SECONDS, TelemetryGap, gaps_between
from lagbench.core.measures.evidence.played_actions import NOTHING_HIDDEN, Hidden
from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.scenario.actions import LONGEST_SESSION_SECONDS
from lagbench.core.scenario.own_consumer import client_pattern
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    GroupJoined,
    PartitionsAssigned,
    PartitionsRevoked,
    PodStarted,
    PodStopped,
    SigtermReceived,
)
from lagbench.core.telemetry.records_of_recorder import (
    GroupMember,
    GroupMembers,
    GroupSample,
    PodSeen,
    PodsListed,
    ReadGap,
    ReplicaSample,
)

MEMBERS_GAP_SECONDS = 10 + GAP_SECONDS
"""Members are named at least every ten seconds; a reading later than this has no names."""
_SURPLUS_READINGS = 3  # a starting pod may overlap with a stopping one in one or two
_SURPLUS_SECONDS = 1.5  # of those readings; a second apart, three last 2 s plus a jitter


class GroupStranger(MeasureModel):
    """A member of the consumer group that is not a pod of the run, or unexplained members.

    ``seen_seconds`` is how long readings showed it; it may have been there ``precision_seconds``
    longer. Without a name (``client_id`` None) only the number of members revealed it: more than
    the run's pods can be. Its partitions are then those that no pod owned during all that time.
    """

    client_id: str | None
    host: str | None
    members: int  # most at once
    partitions: tuple[int, ...]  # all that it ever held
    first_seen_at: int
    last_seen_at: int
    seen_seconds: float
    precision_seconds: float


def group_strangers(
    records: Iterable[TelemetryRecord],
    hidden: Hidden = NOTHING_HIDDEN,
    *,
    members_per_pod: int = 1,
    session_seconds: float = LONGEST_SESSION_SECONDS,
) -> tuple[GroupStranger, ...]:
    """Return every stranger, first seen first; empty when all members were the run's own.

    Members that are only counted are left out while an action hides the number of members. A
    stranger with a name never is.
    """
    by_time = sorted(records, key=lambda record: record.at)
    own = own_clients(by_time)
    reported = [record for record in by_time if isinstance(record, GroupMembers)]
    foreign = [[m for m in record.members if m.client_id not in own] for record in reported]
    samples = [record for record in by_time if isinstance(record, GroupSample)]
    readings = sorted({record.at for record in (*reported, *samples)})
    found = []
    for name in {(member.client_id, member.host) for there in foreign for member in there}:
        held = [[m for m in there if (m.client_id, m.host) == name] for there in foreign]
        changes = [(record.at, len(mine)) for record, mine in zip(reported, held, strict=True)]
        partitions = {p for mine in held for member in mine for p in member.partitions}
        found.append(_stranger(*name, partitions, _visits(changes, readings)))
    ids = _own_ids(by_time)
    explained = [
        (record.at, len(there) + _rejoined(record.members, ids))
        for record, there in zip(reported, foreign, strict=True)
    ]
    limit_at = member_limit(by_time, session_seconds=session_seconds)
    found += _unnamed(
        by_time, samples, explained, hidden, lambda at: limit_at(at) * members_per_pod
    )
    return tuple(sorted(found, key=lambda one: (one.first_seen_at, one.client_id or "")))


def own_clients(records: Iterable[TelemetryRecord]) -> frozenset[str]:
    """Return the client ids of the run's own members: the names of its pods."""
    own: set[str] = set()
    for record in records:
        if isinstance(record, PodSeen):
            own.add(record.pod)
        elif isinstance(record, PodsListed):
            own.update(record.pods)
        elif isinstance(record, PodStarted | GroupJoined):
            own.add(record.source)
    return frozenset(own)


def group_gaps(
    records: Iterable[TelemetryRecord],
    *,
    from_at: int,
    until_at: int,
    hidden: Hidden = NOTHING_HIDDEN,
) -> tuple[TelemetryGap, ...]:
    """Return the gaps in [from_at, until_at] in which the members of the group are unknown.

    A gap is more than ``MEMBERS_GAP_SECONDS`` without a reading, or with readings that long after
    the last one with names. A gap that an action hides is left out.
    """
    by_time = sorted(records, key=lambda record: record.at)
    named_at: int | None = None
    known: list[int] = []
    unnamed: list[int] = []
    for record in by_time:
        if isinstance(record, GroupMembers):
            named_at = record.at
            known.append(record.at)
        elif isinstance(record, GroupSample):
            is_named = named_at is not None and record.at - named_at <= _ns(MEMBERS_GAP_SECONDS)
            (known if is_named else unnamed).append(record.at)
    return tuple(
        TelemetryGap.between(
            "members of the group",
            gap.started_at,
            gap.ended_at,
            "no record of its members" if lacks else "no reading of the group",
        )
        for gap in gaps_between(known, from_at, until_at)
        if not hidden.reading("group", gap.started_at, gap.ended_at)
        for lacks in [any(gap.started_at < at < gap.ended_at for at in unnamed)]
        if lacks or gap.seconds > MEMBERS_GAP_SECONDS
    )


def _visits(
    changes: Sequence[tuple[int, int]], readings: Sequence[int]
) -> list[tuple[int, int, int, int]]:
    """Return per visit: first and last reading with it, uncertainty, most members.

    ``changes`` are the members from each instant on; between two of them the readings are equal.
    """
    visits = []
    position = 0
    for is_there, group in groupby(changes, key=lambda change: change[1] > 0):
        same = list(group)
        following = position + len(same)
        if is_there:
            first_at = same[0][0]
            ends_at = changes[following][0] if following < len(changes) else None
            last_at = max(at for at in readings if ends_at is None or at < ends_at)
            before_at = max((at for at in readings if at < first_at), default=first_at)
            unsure_ns = (first_at - before_at) + ((ends_at or last_at) - last_at)
            visits.append((first_at, last_at, unsure_ns, max(count for _, count in same)))
        position = following
    return visits


def _unnamed(
    by_time: Sequence[TelemetryRecord],
    samples: Sequence[GroupSample],
    explained: Sequence[tuple[int, int]],
    hidden: Hidden,
    limit_at: Callable[[int], int],
) -> Iterator[GroupStranger]:
    """Yield the surplus of members beyond the run's pods and the ``explained`` ones.

    ``limit_at`` returns the most members that the pods can be. ``explained`` has, from each instant
    on, the named strangers and the pods' own second members.
    """
    named = iter(explained)
    known, next_named = 0, next(named, None)
    changes = []
    for sample in samples:
        while next_named is not None and next_named[0] <= sample.at:
            known, next_named = next_named[1], next(named, None)
        surplus = max(0, sample.members - known - limit_at(sample.at))
        if not hidden.by("members", sample.at, count=surplus):
            changes.append((sample.at, surplus))
    long = [
        change
        for is_surplus, group in groupby(changes, key=lambda change: change[1] > 0)
        for same in [list(group)]
        for change in same
        if not is_surplus or _is_lasting([at for at, _ in same])
    ]
    visits = _visits(long, [at for at, _ in changes])
    if visits:
        inside = [at for at, surplus in long if surplus]
        yield _stranger(None, None, unowned_partitions(by_time, inside), visits)


def _is_lasting(readings: Sequence[int]) -> bool:
    """Return whether a surplus in these consecutive readings is more than an overlap of pods."""
    lasted = readings[-1] - readings[0]
    return len(readings) >= _SURPLUS_READINGS and lasted >= _ns(_SURPLUS_SECONDS)


def _own_ids(records: Iterable[TelemetryRecord]) -> dict[str, set[str]]:
    """Return the member ids that each pod reported as its own."""
    ids: dict[str, set[str]] = defaultdict(set)
    for record in records:
        if isinstance(record, GroupJoined | PartitionsAssigned | PartitionsRevoked):
            ids[record.source].add(record.member_id)
    return ids


def _named_until(records: Sequence[TelemetryRecord]) -> dict[str, int]:
    """Return until when the coordinator named each pod's own member; ``records`` are sorted."""
    ids = _own_ids(records)
    reported = [record for record in records if isinstance(record, GroupMembers)]
    read = [record for record in records if isinstance(record, GroupSample)]
    return {
        member.client_id: following.at
        for record, following in zip(reported, [*reported[1:], *read[-1:]], strict=False)
        for member in record.members
        if member.member_id in ids.get(member.client_id, ())
    }


def left_behind_text(records: Iterable[TelemetryRecord]) -> str:
    """Return which pods ended in order and stayed members of the group; "" if none did.

    With cooperative-sticky the close of librdkafka 2.16 sends no leave for a member without
    partitions, which then stays until its session ends. If it leads the group, no member gets
    partitions until then.
    """
    by_time = sorted(records, key=lambda record: record.at)
    static = {one.source for one in by_time if isinstance(one, PodStarted) and one.instance_id}
    left = {one.source for one in by_time if isinstance(one, SigtermReceived)} - static
    stopped = {one.source: one.at for one in by_time if isinstance(one, PodStopped)}
    until = _named_until(by_time)
    stayed = {
        pod: (until.get(pod, at) - at) / NANOSECONDS for pod, at in stopped.items() if pod in left
    }
    late = {pod: seconds for pod, seconds in stayed.items() if seconds > GAP_SECONDS}
    if not late:
        return ""
    return (
        f"{len(late)} pod{'s' * (len(late) > 1)} ended in order and stayed members of the group,"
        f" {max(late.values()):.1f} s at most: {', '.join(sorted(late))}"
    )


def _rejoined(members: Iterable[GroupMember], own_ids: Mapping[str, set[str]]) -> int:
    """Return how many members are a pod's second one: it joined again before a session ended.

    Both ids are the pod's own by its own records: a stranger under a pod's name has another id.
    """
    own = Counter(m.client_id for m in members if m.member_id in own_ids.get(m.client_id, ()))
    return sum(count - 1 for count in own.values())


def _stranger(
    client_id: str | None,
    host: str | None,
    partitions: set[int],
    visits: Sequence[tuple[int, int, int, int]],
) -> GroupStranger:
    return GroupStranger(
        client_id=client_id,
        host=host,
        members=max(members for *_, members in visits),
        partitions=tuple(sorted(partitions)),
        first_seen_at=visits[0][0],
        last_seen_at=visits[-1][1],
        seen_seconds=sum(last - first for first, last, *_ in visits) / NANOSECONDS,
        precision_seconds=sum(unsure for *_, unsure, _ in visits) / NANOSECONDS,
    )


def _ns(seconds: float) -> int:
    return round(seconds * NANOSECONDS)


_NEVER = 2**63


def member_limit(
    records: Sequence[TelemetryRecord], *, session_seconds: float = LONGEST_SESSION_SECONDS
) -> Callable[[int], int]:
    """Return a function from an instant to the most members that the run's pods can be then.

    ``records`` are sorted by time. A dead member stays for ``session_seconds``, at least those of
    lagbench's own members.
    """
    late = round((max(session_seconds, LONGEST_SESSION_SECONDS) + GAP_SECONDS) * NANOSECONDS)
    own = [record for record in records if isinstance(record, PodStarted | PodStopped)]
    left = {record.source for record in records if isinstance(record, SigtermReceived)}
    seen: dict[str, list[PodSeen]] = defaultdict(list)
    for record in records:
        if isinstance(record, PodSeen):
            seen[record.pod].append(record)
    # A coordinator that was away forgets nothing: a pod that left meanwhile is a member until then.
    was_away = any(isinstance(record, ReadGap) and record.what == "group" for record in records)
    named_until = _named_until(records)
    starts, ends = [], []
    for pod in {*seen, *(record.source for record in own)}:
        reported = [record for record in own if record.source == pod]
        leaves = pod in left and not was_away
        until = named_until.get(pod, 0)
        for start, end in _stays(reported, seen[pod], until, leaves=leaves, late=late):
            starts.append(start)
            ends.append(end)
    starts.sort()
    ends.sort()
    replicas = [record for record in records if isinstance(record, ReplicaSample)]
    sampled = [record.at for record in replicas]
    reach = round(GAP_SECONDS * NANOSECONDS)

    def limit(at: int) -> int:
        around = replicas[bisect_left(sampled, at - reach) : bisect_right(sampled, at + reach)]
        reported = bisect_right(starts, at) - bisect_left(ends, at)
        return max(reported, *(record.current for record in around), 0)

    return limit


def unowned_partitions(records: Sequence[TelemetryRecord], instants: Sequence[int]) -> set[int]:
    """Return the partitions that no pod of the run owned at any of ``instants``.

    Partitions that any pod ever owned are known to exist; ``records`` are sorted by time.
    """
    owned: dict[str, set[int]] = {}
    at_all: set[int] | None = None
    moves = [r for r in records if isinstance(r, PartitionsAssigned | PartitionsRevoked)]
    position = 0
    for at in instants:
        while position < len(moves) and moves[position].at <= at:
            owned[moves[position].source] = set(moves[position].owned)
            position += 1
        held = set().union(*owned.values())
        at_all = held if at_all is None else at_all | held
    known = {partition for move in moves for partition in move.owned}
    return known - (at_all or set())


def _stays(
    reported: Sequence[PodStarted | PodStopped],
    seen: Sequence[PodSeen],
    named_until: int,
    *,
    leaves: bool,
    late: int,
) -> Iterator[tuple[int, int]]:
    """Yield the start and end of the possible membership of each container of one pod.

    The last one ends at its own stop record, else with the pod's object, else never. A member that
    did not leave in order stays for ``late`` (nanoseconds) more, one whose leave was lost until the
    coordinator names it no more (``named_until``).
    """
    early = round(GAP_SECONDS * NANOSECONDS)
    started = [record for record in reported if isinstance(record, PodStarted)]
    stopped = [record.at for record in reported if isinstance(record, PodStopped)]
    is_static = any(record.instance_id for record in started)
    first = [found.created_at for found in seen] + [record.at for record in reported]
    since = [min(first), *(record.at for record in started[1:])]
    for begin, following in zip(since, [*since[1:], None], strict=True):
        if following is not None:
            yield begin - early, following + late
        elif stopped and stopped[-1] >= begin:
            ends = stopped[-1] + (early if leaves and not is_static else late)
            yield begin - early, max(ends, named_until + early)
        else:
            gone = max((found.gone_at for found in seen if found.gone_at is not None), default=None)
            yield begin - early, _NEVER if gone is None else gone + late


def with_pods_of_members(
    records: Sequence[TelemetryRecord], consumer: ConsumerSettings
) -> list[TelemetryRecord]:
    """Return ``records``, with the pod's name as the client id of each member that has one.

    Without ``{pod}`` in the scenario's ``client_id`` the names of members mean nothing.
    """
    named = consumer.client_id is not None and "{pod}" in consumer.client_id
    pods = own_clients(records)
    return [
        msgspec.structs.replace(
            record,
            members=list(_named(record.members, pods, consumer.client_id or "")) if named else [],
        )
        if isinstance(record, GroupMembers)
        else record
        for record in records
    ]


def _named(
    members: Iterable[GroupMember], pods: frozenset[str], client_id: str
) -> Iterator[GroupMember]:
    pattern = client_pattern(client_id, r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
    for member in members:
        found = pattern.fullmatch(member.client_id)
        if found is not None and found["pod"] in pods:
            yield msgspec.structs.replace(member, client_id=found["pod"])
        else:
            yield member
