"""Compute the CPU of a consumer pod over time; each pod reports its CPU time once a second.

A pod's use between two of its reports is the CPU time spent in between, in cores. Reports more than
3.5 s apart, and a total that fell (the container was restarted), give no value for that time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from statistics import median

import numpy as np
from pydantic import Field

from lagbench.core.measures.evidence.group_events import GroupEvent, GroupState
from lagbench.core.measures.evidence.lag_readings import GAP_SECONDS, RateSeries
from lagbench.core.measures.evidence.played_actions import TopicPartitions
from lagbench.core.measures.evidence.pod_timeline import PodTimeline
from lagbench.core.measures.model import NANOSECONDS, Ints, MeasureModel, Reals
from lagbench.core.measures.rate_dip import mean_rate_before
from lagbench.core.measures.rebalance_episodes import EpisodeSpan, RebalanceEpisode
from lagbench.core.measures.replica_steps import ReplicaChange
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import ConsumerProgress, PodStarted


@dataclass(frozen=True, slots=True)
class ConsumerCpu:
    """Cores in use at each ``at`` (unix ns, a second apart); NaN where no pod reported."""

    at: Ints
    mean: Reals
    highest: Reals


def consumer_cpu(records: Iterable[TelemetryRecord]) -> ConsumerCpu:
    """Return the mean and the highest use of the pods; empty without two reports of a pod."""
    lines = _reports(records)
    if not lines:
        none = np.empty(0)
        return ConsumerCpu(np.empty(0, dtype=np.int64), none, none)
    start, end = min(own[0].at for own in lines), max(own[-1].at for own in lines)
    grid = np.arange(start + NANOSECONDS, end + NANOSECONDS, NANOSECONDS, dtype=np.int64)
    grid = np.minimum(grid, end)
    total, count = np.zeros(grid.size), np.zeros(grid.size)
    highest = np.full(grid.size, np.nan)
    for own in lines:
        use = _use(own, grid)
        is_known = ~np.isnan(use)
        total[is_known] += use[is_known]
        count += is_known
        highest = np.fmax(highest, use)
    mean = np.full(grid.size, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    return ConsumerCpu(grid, mean, highest)


def cpu_ms_per_message(records: Iterable[TelemetryRecord]) -> float | None:
    """Return the CPU time of the pods after their start for each message, in ms; idle time counts.

    None: no pod reported two totals with messages in between.
    """
    spent, done = list[float](), 0
    for own in _reports(records):
        for left, right in pairwise(own):
            seconds = right.cpu_seconds - left.cpu_seconds
            messages = right.processed_total - left.processed_total
            if seconds >= 0 and messages >= 0:  # else the container was restarted
                spent.append(seconds)
                done += messages
    return 1000 * fsum(spent) / done if done else None


def _reports(records: Iterable[TelemetryRecord]) -> list[list[ConsumerProgress]]:
    """Return the reports of each pod that has two or more, in their order."""
    reports: dict[str, list[ConsumerProgress]] = {}
    for record in records:
        if isinstance(record, ConsumerProgress):
            reports.setdefault(record.source, []).append(record)
    return [sorted(own, key=lambda report: report.at) for own in reports.values() if len(own) > 1]


def _use(own: list[ConsumerProgress], grid: Ints) -> Reals:
    """Return the cores in use by one pod at each instant of ``grid``; NaN without a report."""
    use = np.full(grid.size, np.nan)
    for left, right in pairwise(own):
        seconds = (right.at - left.at) / NANOSECONDS
        spent = right.cpu_seconds - left.cpu_seconds
        if spent < 0 or not 0 < seconds <= GAP_SECONDS:
            continue
        first, end = np.searchsorted(grid, [left.at, right.at], side="right")
        use[first:end] = spent / seconds
    return use


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


class StartCost(MeasureModel):
    """Seconds from created to Ready beyond the delay, over pods; None: no pod reported it."""

    pods: int = 0
    unreported_pods: int = Field(0, description="Ready, but without a record of their start")
    median_seconds: float | None = None
    max_seconds: float | None = None
    delay_mean_seconds: float | None = None
    cpu_seconds: float | None = Field(
        None, description="processor time of all starts up to the first record; None: not reported"
    )


def start_cost(
    records: Sequence[TelemetryRecord], timelines: Mapping[str, PodTimeline]
) -> StartCost:
    """Return the start cost of the pods of ``timelines``."""
    reported: dict[str, PodStarted] = {}
    for record in records:  # a restarted container reports again: its first start counts
        if isinstance(record, PodStarted):
            reported.setdefault(record.source, record)
    ready = {
        pod: (timeline.ready_at - timeline.created_at) / NANOSECONDS
        for pod, timeline in timelines.items()
        if timeline.ready_at is not None
    }
    pods = [pod for pod in ready if pod in reported]
    if not pods:
        return StartCost(unreported_pods=len(ready))
    delays = {pod: reported[pod].start_delay_seconds or 0.0 for pod in pods}
    costs = [ready[pod] - delays[pod] for pod in pods]
    cpu = [reported[pod].start_cpu_seconds for pod in pods]
    spent = [seconds for seconds in cpu if seconds is not None]
    return StartCost(
        pods=len(pods),
        unreported_pods=len(ready) - len(pods),
        median_seconds=median(costs),
        max_seconds=max(costs),
        delay_mean_seconds=sum(delays.values()) / len(pods),
        cpu_seconds=sum(spent) if len(spent) == len(cpu) else None,
    )


class PaidForItself(MeasureModel):
    """The messages that the added pods cleared, compared with what the scaling held up.

    Dips count until the lag is drained, standstills of a partition until the end: those of a
    scale-down, too.
    """

    started_at: int | None = None
    ended_at: int | None = None
    base_rate_per_second: float | None = None  # before the first added pod worked
    cleared_records: float | None = None  # by the added pods, before the dips are subtracted
    lost_to_dips_records: float | None = None
    held_by_standstills_records: int | None = None  # of any cause; None: also in older runs
    net_records: float | None = None
    added_pod_minutes: float | None = None
    net_records_per_pod_minute: float | None = None
    has_paid: bool | None = None
    reason: str  # why it was not measured; empty when it was


def paid_for_itself(
    rate: RateSeries,
    changes: Sequence[ReplicaChange],
    episodes: Sequence[RebalanceEpisode],
    timelines: Iterable[PodTimeline] | None,
    *,
    spike_started_at: int | None,
    ended_at: int,
    held_since: Callable[[int], int | None],
) -> PaidForItself:
    """Return the balance of the scale-out after ``spike_started_at`` up to ``ended_at``.

    :param timelines: None: they are not known of all pods, nor is the added pods' time.
    :param held_since: messages held up by standstills from an instant to the run's end; None: not
        known.
    """
    rises = [c.at for c in changes if c.replicas_after > c.replicas_before]
    starts = [at for at in rises if spike_started_at is not None and at >= spike_started_at]
    if not starts:
        return PaidForItself(reason="the policy added no pod after a load step")
    start = starts[0]
    base = mean_rate_before(rate, start)
    if base is None or ended_at <= start:
        return PaidForItself(reason="no rate before the first rise, or the run ended with it")
    seconds = (ended_at - start) / NANOSECONDS
    balance, held = rate.processed_between(start, ended_at) - base * seconds, held_since(start)
    net = None if held is None else balance - held
    areas = [
        episode.dip_area_messages
        for episode in episodes
        if episode.trigger == "scale_up" and start <= episode.started_at < ended_at
    ]
    known = [area for area in areas if area is not None]
    lost = sum(known) if len(known) == len(areas) else None
    reasons = ["the dip of a scale step was not measured"] if lost is None else []
    reasons += ["the work is not known by partition"] if held is None else []
    minutes = None
    if timelines is not None:
        added = [pod for pod in timelines if pod.created_at >= start - NANOSECONDS]
        minutes = sum(pod.seconds_between(start, ended_at) for pod in added) / 60
    return PaidForItself(
        started_at=start,
        ended_at=ended_at,
        base_rate_per_second=base,
        cleared_records=None if lost is None else balance + lost,
        lost_to_dips_records=lost,
        held_by_standstills_records=held,
        net_records=net,
        added_pod_minutes=minutes,
        net_records_per_pod_minute=net / minutes if minutes and net is not None else None,
        has_paid=None if net is None else net > 0,
        reason="; ".join(reasons),
    )
