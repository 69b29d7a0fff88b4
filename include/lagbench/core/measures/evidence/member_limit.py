"""Limit how many members of the consumer group can be the run's own pods at an instant.

A pod is a member at most from its creation until it has left the group. A pod that leaves in order
reports it. A pod that ends otherwise, or is a static member, stays until its session times out; so
does each earlier container of a restarted pod. If the records of the pods are lost, existing
replicas also count as pods of the run.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from lagbench.core.measures.evidence.gaps import GAP_SECONDS
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.scenario.balancer import LONGEST_SESSION_SECONDS
from lagbench.core.telemetry.consumer import (
    PartitionsAssigned,
    PartitionsRevoked,
    PodStarted,
    PodStopped,
    SigtermReceived,
)
from lagbench.core.telemetry.recorder import PodSeen, ReadGap, ReplicaSample
from lagbench.core.telemetry.records import TelemetryRecord

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
    starts, ends = [], []
    for pod in {*seen, *(record.source for record in own)}:
        reported = [record for record in own if record.source == pod]
        leaves = pod in left and not was_away
        for start, end in _stays(reported, seen[pod], leaves=leaves, late=late):
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
    *,
    leaves: bool,
    late: int,
) -> Iterator[tuple[int, int]]:
    """Yield the start and end of the possible membership of each container of one pod.

    The last one ends at its own stop record, else with the pod's object, else never. A member that
    did not leave in order stays for ``late`` (nanoseconds) more.
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
            yield begin - early, stopped[-1] + (early if leaves and not is_static else late)
        else:
            gone = max((found.gone_at for found in seen if found.gone_at is not None), default=None)
            yield begin - early, _NEVER if gone is None else gone + late
