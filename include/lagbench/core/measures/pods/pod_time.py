"""Measure the use of the pods' time.

* pod time: from created to gone, inside the measurement window; in pod-minutes.
* idle ratio: 1 - records done / capacity. Capacity is pod time x the highest rate of one pod. So
  start-up and empty pods count as idle, because they are also paid for.
* zero-partition time: from Ready (or joined, if that is known first) to the end, while owning none.
* surplus: a pod that was a member while there were more members than partitions, and that never
  owned one. With P partitions and more members, (members - P) of them must be idle, except during
  rebalances, which take partitions away for a moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lagbench.core.measures.evidence.group_events import GroupEvent, GroupState
from lagbench.core.measures.evidence.in_force import TopicPartitions
from lagbench.core.measures.evidence.pod_timeline import PodTimeline
from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.measures.rebalance.episodes import EpisodeSpan


class SurplusPod(MeasureModel):
    """A pod that was a member while there were more members than partitions, and got none."""

    pod: str
    zero_partition_seconds: float
    records_done: int | None


@dataclass(frozen=True, slots=True)
class Surplus:
    """Pods beyond the partitions, and whether they were idle."""

    pods: tuple[SurplusPod, ...]
    max_members: int
    most_beyond: int
    """The most members above the partitions of their instant; 0 or less: never any."""
    is_idle: bool | None
    text: str


def idle_ratio(pod_seconds: float, records_done: int, pod_rate: float | None) -> float | None:
    """Return the share of the pods' capacity that did no work; None without pod time.

    ``pod_rate``: records a second that one pod can do; None: a record costs nothing.
    """
    if pod_seconds <= 0:
        return None
    return 1.0 if pod_rate is None else max(0.0, 1 - records_done / (pod_seconds * pod_rate))


def zero_partition_seconds(
    events: Sequence[GroupEvent], timelines: Mapping[str, PodTimeline], from_at: int, until_at: int
) -> dict[str, float]:
    """Return for each pod how long it owned no partition, inside [from_at, until_at]."""
    spent: dict[str, float] = {}
    for pod in sorted({event.pod for event in events} | set(timelines)):
        own = [event for event in events if event.pod == pod]
        timeline = timelines.get(pod)
        starts = [event.at for event in own[:1]]
        if timeline is not None and timeline.ready_at is not None:
            starts.append(timeline.ready_at)
        if not starts:
            continue  # never Ready and never a member: start-up, not idleness
        ends = [event.at for event in own if event.kind in ("left", "died")]
        if timeline is not None and timeline.gone_at is not None:
            ends.append(timeline.gone_at)
        spent[pod] = _empty_seconds(own, max(min(starts), from_at), min([*ends, until_at]))
    return spent


def _empty_seconds(own: Sequence[GroupEvent], start: int, end: int) -> float:
    empty_ns, since, owned = 0, start, frozenset[int]()
    for event in own:
        if event.owned is None:
            continue
        at = min(max(event.at, start), end)
        if not owned:
            empty_ns += max(0, at - since)
        since, owned = at, event.owned
    return (empty_ns + (0 if owned else max(0, end - since))) / NANOSECONDS


def surplus(
    events: Sequence[GroupEvent],
    spans: Sequence[EpisodeSpan],
    partitions: TopicPartitions,
    *,
    zero_seconds: Mapping[str, float],
    records_done: Mapping[str, int] | None,
) -> Surplus:
    """Return the pods beyond the partitions of an instant, and whether they did nothing.

    ``records_done``: by pod, from the ledger; None when there is no accounting.
    """
    state, most, seen, wrong = GroupState(), 0, set[str](), ""
    worst, worst_text = -partitions.last, ""
    owners: set[str] = set()
    settled_at = {span.ended_at for span in spans}
    for event in events:
        state.apply(event)
        owners |= set(state.owner.values())
        members, count = len(state.members), partitions.at(event.at)
        most = max(most, members)
        if members - count > worst or not worst_text:
            worst, worst_text = members - count, f"{members} members on {count} partitions"
        if members <= count:
            continue
        seen |= state.members
        missing = members - count - len(state.idle_members())
        if event.at in settled_at and missing > 0:
            wrong = f"{missing} of {members} members should have been idle"
    if worst <= 0:
        return Surplus((), most, worst, None, f"never more members than partitions ({most})")
    pods = tuple(
        SurplusPod(
            pod=pod,
            zero_partition_seconds=zero_seconds.get(pod, 0.0),
            records_done=None if records_done is None else records_done.get(pod, 0),
        )
        for pod in sorted(seen - owners)
    )
    busy = [pod.pod for pod in pods if pod.records_done]
    if busy:
        wrong = f"{', '.join(busy)} processed records without owning a partition"
    facts = f"{worst_text}; {len(pods)} pods never got one"
    is_idle = None if records_done is None and not wrong else not wrong
    return Surplus(pods, most, worst, is_idle, f"{facts}; {wrong}" if wrong else facts)
