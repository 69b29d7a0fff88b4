"""Measure the replicas over the run and their use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from lagbench.core.measures.evidence.group_events import GroupEvent
from lagbench.core.measures.evidence.lag_readings import BIN_NS, gaps_text
from lagbench.core.measures.evidence.pod_timeline import pod_of_life, pod_seconds, unwatched_text
from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.measures.pod_use import (
    SurplusPod,
    cpu_ms_per_message,
    idle_ratio,
    surplus,
    zero_partition_seconds,
)
from lagbench.core.measures.rebalance_episodes import EpisodeSpan, episode_spans, partition_gaps
from lagbench.core.measures.rebalance_summary import (
    GroupWork,
    Rebalances,
    rebalance_episodes,
    rebalances,
    unanswered_steps,
)
from lagbench.core.measures.replica_changes import (
    baseline_at_floor,
    mark_self_made,
    replica_changes,
    replica_gaps,
)
from lagbench.core.measures.replica_steps import ReplicaChange
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.measures.standstill import Standstill, asleep_periods, standstill
from lagbench.core.scenario.actions import downstream_pace, rebalance_protocol
from lagbench.core.scenario.consumer_kinds import knows_work
from lagbench.core.telemetry.records_of_recorder import GroupMembers, GroupSample

BASELINE_SECONDS = 2.0
"""Samples are a second apart: a shorter time before the first spike may have none."""


@dataclass(frozen=True, slots=True)
class Group:
    """Replica changes and rebalances of the group."""

    changes: Sequence[ReplicaChange]
    spans: Sequence[EpisodeSpan]


def replica_group(run: RunEvidence, from_at: int, until_at: int) -> Group:
    """Return replica changes and rebalances of the measurement window."""
    changes = replica_changes(
        run.records,
        from_at=from_at,
        until_at=until_at,
        last_spike_ended_at=run.load.last_spike_ended_at,
    )
    if run.load.stream_started_at is not None:
        windows = [(spike.started_at, spike.ended_at) for spike in run.load.spike_windows]
        changes = tuple(mark_self_made(changes, windows))
    found: list[GroupEvent] = []
    if run.observation is not None:  # the members that it finds first did not join then
        found_at = min((r.at for r in run.records if isinstance(r, GroupMembers)), default=0)
        found = [event for event in run.events if event.at <= found_at]
    return Group(changes, episode_spans(run.events[len(found) :], found=found))


def scaling_measure(run: RunEvidence, group: Group, from_at: int, until_at: int) -> Scaling:
    """Return the replicas over the run and their use."""
    samples = run.replica_samples
    start, spike = run.load.stream_started_at, run.load.first_spike_started_at
    causes = [change.is_self_made for change in group.changes]
    wanted = [
        *(sample.spec for sample in samples),
        *(change.replicas_after for change in group.changes),
    ]
    is_seen = bool(wanted)  # else nothing read the replicas
    sample_until_at = until_at if run.sample_until_at is None else run.sample_until_at
    unwatched = unwatched_pods(run, from_at, until_at)
    seen_seconds = pod_seconds(run.timelines, from_at, sample_until_at)
    known_seconds = None if unwatched else seen_seconds
    seconds_after = None if unwatched else pod_seconds(run.timelines, sample_until_at, until_at)
    empty = zero_partition_seconds(run.events, run.timelines, from_at, until_at)
    at_start = run.policies.at(run.load.first_spike_started_at)
    is_at_floor, baseline_text = baseline_at_floor(
        run.records,
        group.changes,
        floor=at_start.floor_replicas,
        started=at_start.started_replicas,
        stream_started_at=run.load.stream_started_at,
        first_spike_started_at=run.load.first_spike_started_at,
        until_at=until_at,
    )
    extra = surplus(
        run.events,
        group.spans,
        run.topic_partitions,
        zero_seconds=empty,
        records_done=_records_by_pod(run),
    )
    counted = [
        record
        for record in run.records
        if isinstance(record, GroupSample)
        and from_at <= record.at <= until_at
        and not run.hidden.by("members", record.at, count=_beyond(run, record))
    ]
    return Scaling(
        changes=tuple(group.changes),
        change_count=len(group.changes) if is_seen else None,
        reversals=sum(change.is_reversal for change in group.changes) if is_seen else None,
        flips=sum(change.is_flip for change in group.changes) if is_seen else None,
        self_made_flips=causes.count(True) if is_seen and start is not None else None,
        load_following_flips=causes.count(False) if is_seen and start is not None else None,
        floor_replicas=run.limits.floor_replicas if run.has_policy else None,
        ceiling_replicas=run.policies.highest_ceiling if run.has_policy else None,
        max_replicas=max(wanted, default=None),
        max_ready_replicas=max((sample.ready for sample in samples), default=None),
        partitions=run.partitions,
        partitions_at_end=run.topic_partitions.last,
        pod_minutes=None if known_seconds is None else known_seconds / 60,
        idle_ratio=None
        if known_seconds is None or (run.observation and run.pod_rate_per_second is None)
        else idle_ratio(
            known_seconds,
            run.rate.processed_between(from_at, sample_until_at),
            run.pod_rate_per_second,
        ),
        zero_partition_pod_seconds=sum(empty.values()) if run.events and run.timelines else None,
        baseline_at_floor=is_at_floor,
        baseline_text=baseline_text,
        max_members=extra.max_members if run.events else None,
        surplus_pods=extra.pods,
        surplus_pods_idle=extra.is_idle,
        surplus_text=extra.text,
        gaps_text=gaps_text(
            "replicas", replica_gaps(run.records, from_at, until_at), run.load.origin_at or from_at
        ),
        unwatched_text=unwatched,
        seen_pod_minutes=None if seen_seconds is None else seen_seconds / 60,
        pod_minutes_after=None if seconds_after is None else seconds_after / 60,
        cpu_ms_per_message=cpu_ms_per_message(run.records),
        has_baseline=start is None
        or spike is None
        or spike - start >= BASELINE_SECONDS * NANOSECONDS,
        max_group_members=max((record.members for record in counted), default=None),
        members_beyond=extra.most_beyond if run.events else None,
        group_members_beyond=max((_beyond(run, record) for record in counted), default=None),
        replicas_beyond=max(
            [
                *(sample.spec - run.topic_partitions.at(sample.at) for sample in samples),
                *(c.replicas_after - run.topic_partitions.at(c.at) for c in group.changes),
            ],
            default=None,
        ),
    )


def _beyond(run: RunEvidence, record: GroupSample) -> int:
    """Return by how many the members exceed the partitions of their instant."""
    return record.members - run.topic_partitions.at(record.at)


def unwatched_pods(run: RunEvidence, from_at: int, until_at: int) -> str:
    """Return why the time of the pods is not known; empty: it is, or the run watches no pods."""
    if not run.timelines:
        return ""
    return unwatched_text(
        run.records, run.timelines, from_at, until_at, members_are_pods=run.members_are_pods
    )


def _records_by_pod(run: RunEvidence) -> dict[str, int] | None:
    """Return what each pod did; None without an accounting.

    The accounting has a pod's lives in one sum. With several lives the rates distinguish them.
    """
    if run.accounting is None:
        return None
    by_pod = run.accounting.get("by_pod") or {}
    done = {pod: int(work.get("processed", 0)) for pod, work in by_pod.items()}
    if all(pod_of_life(name) == name for name in run.timelines):
        return done
    rates = run.work.pod_rates
    if rates is None:
        return None
    return {pod: int(row.sum()) for pod, row in zip(rates.pods, rates.done, strict=True)}


class Scaling(MeasureModel):
    """Replicas over the run and their use."""

    changes: tuple[ReplicaChange, ...]
    change_count: int | None  # this and the next two: None without a reading of the replicas
    reversals: int | None
    flips: int | None
    floor_replicas: int | None
    ceiling_replicas: int | None
    max_replicas: int | None  # desired
    max_ready_replicas: int | None
    partitions: int
    pod_minutes: float | None  # over the planned window, like idle_ratio
    idle_ratio: float | None
    zero_partition_pod_seconds: float | None
    baseline_at_floor: bool | None
    baseline_text: str
    max_members: int | None
    surplus_pods: tuple[SurplusPod, ...]
    surplus_pods_idle: bool | None  # None: there were never more members than partitions
    surplus_text: str
    gaps_text: str = Field("", description="gaps in which replicas may have changed; empty: none")
    pod_minutes_after: float | None = None  # after the planned window
    has_baseline: bool = True  # False: the load begins with a spike
    self_made_flips: int | None = None  # None: unknown, or measured before this field existed
    load_following_flips: int | None = None
    max_group_members: int | None = None  # as the broker counted them, unless an action hid it
    partitions_at_end: int | None = None  # None: measured before this field existed
    # The most above the partitions of the same instant; None: not seen, or as above.
    members_beyond: int | None = None
    group_members_beyond: int | None = None
    replicas_beyond: int | None = None
    unwatched_text: str = Field(
        "", description="why pods have no timeline, so that their time is not known; empty: all do"
    )
    cpu_ms_per_message: float | None = Field(
        None, description="CPU time of the pods that report it, without that of their start"
    )
    seen_pod_minutes: float | None = Field(
        None, description="like pod_minutes, of the pods that have a timeline: the least that it is"
    )

    @property
    def idle_pod_minutes(self) -> float | None:
        """The pods' time in the planned window that did no work: it was paid and not needed."""
        if self.pod_minutes is None or self.idle_ratio is None:
            return None
        return self.pod_minutes * self.idle_ratio

    @property
    def surplus_count(self) -> int | None:
        """The pods that never got a partition; None: the members are not known."""
        return None if self.max_members is None else len(self.surplus_pods)

    @property
    def surplus_records(self) -> int | None:
        """Messages done by the pods beyond the partitions; None: not known of one of them."""
        done = [pod.records_done for pod in self.surplus_pods]
        known = [records for records in done if records is not None]
        is_known = self.max_members is not None and len(known) == len(done)
        return sum(known) if is_known else None


def rebalance_measures(
    run: RunEvidence, group: Group, from_at: int, until_at: int
) -> tuple[Rebalances, Standstill]:
    """Return the rebalances and standstills of the measurement window."""
    cost_seconds = max(run.scenario.consumer.message_ms / 1000, run.work.message_seconds or 0.0)
    slowness, pace = None, downstream_pace(run.scenario.actions)
    if not pace.is_even and run.load.stream_started_at is not None:
        starts_at = run.rate.started_at + BIN_NS * np.arange(run.rate.processed.size)
        seconds = (starts_at - run.load.stream_started_at) / NANOSECONDS
        slowness = np.array([pace.factor_at(second) for second in seconds.tolist()])
    found = GroupWork(
        rate=run.rate,
        work=run.work,
        events=run.events,
        timelines=run.timelines,
        changes=group.changes,
        from_at=from_at,
        until_at=until_at,
        nominal_rate_per_second=run.pod_rate_per_second,
        message_seconds=cost_seconds,
        hidden=run.hidden,
        slowness=slowness,
    )
    protocols = {rebalance_protocol(balancer) for balancer in run.balancers}
    protocol = protocols.pop() if len(protocols) == 1 else None  # an action moves the group
    episodes = rebalance_episodes(group.spans, found, protocol)
    asleep = []
    if run.limits.floor_replicas == 0:
        asleep = asleep_periods(run.events, run.replica_samples, group.changes, until_at)
    return rebalances(
        episodes,
        partition_gaps([each for each in run.handovers if each.next_done_at <= until_at])
        if knows_work(run.accounting_level)
        else None,
        unanswered=unanswered_steps(episodes, found),
        detail=run.work.note,
    ), standstill(
        run.rate,
        run.work,
        from_at=from_at,
        until_at=until_at,
        message_seconds=cost_seconds,
        asleep=asleep,
    )
