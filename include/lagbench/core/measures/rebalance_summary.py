"""Build rebalance episodes with their dips, and the summary over the scale steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from lagbench.core.measures.evidence.group_events import GroupEvent
from lagbench.core.measures.evidence.lag_readings import RateSeries
from lagbench.core.measures.evidence.played_actions import NOTHING_HIDDEN, Hidden
from lagbench.core.measures.evidence.pod_timeline import PodTimeline
from lagbench.core.measures.expected_work import (
    Counterfactual,
    Noise,
    Undisturbed,
    counting_owners,
    pod_rate_per_second,
)
from lagbench.core.measures.model import NANOSECONDS, MeasureModel, Reals
from lagbench.core.measures.partition_work import POD_BINS, PartitionWork
from lagbench.core.measures.rate_dip import (
    AFTERMATH_SECONDS,
    NO_WORK_REASONS,
    SMALLEST_EXPECTED,
    WATCH_SECONDS,
    WINDOW_BINS,
    RateDip,
    episode_bins,
    mean_rate_before,
    rate_dip,
)
from lagbench.core.measures.rebalance_episodes import (
    SCALE_STEPS,
    EpisodeSpan,
    EpisodeTrigger,
    PartitionGaps,
    RebalanceEpisode,
    StepCosts,
    caused_by_action,
    episode_trigger,
    of_all,
)
from lagbench.core.measures.replica_changes import ReplicaPods, replica_pods
from lagbench.core.measures.replica_steps import ReplicaChange
from lagbench.core.scenario.actions import RebalanceProtocol


class Rebalances(MeasureModel):
    """All episodes; the summary has ended scale steps (``scale_up`` and ``scale_down``) alone."""

    episodes: tuple[RebalanceEpisode, ...]
    count: int | None  # with those by which the group started
    scale_step_count: int | None
    max_dip_percent: float | None
    total_dip_area_messages: float | None
    max_recovery_seconds: float | None
    partition_gaps: PartitionGaps | None
    max_short_dip_percent: float | None = None
    max_area_seconds: float | None = None
    unanswered_step_ats: tuple[int, ...] = ()  # replica changes under load without an episode
    detail: str = ""  # what the expected rate was computed from
    scale_ups: StepCosts = StepCosts()
    scale_downs: StepCosts = StepCosts()
    of_actions: StepCosts = StepCosts()  # episodes that an action of the run caused

    def steps(self, *triggers: EpisodeTrigger) -> list[RebalanceEpisode]:
        """Return the episodes of these kinds that had work to lose: an idle group cannot dip."""
        own = (episode for episode in self.episodes if episode.trigger in triggers)
        return [episode for episode in own if episode.reason not in NO_WORK_REASONS]

    @property
    def after_start(self) -> int | None:
        """Return how many rebalances there were without those by which the group started."""
        if self.count is None:
            return None
        return sum(episode.trigger != "start" for episode in self.episodes)


_NO_STEPS = StepCosts(steps=None, idle_steps=None)
NOT_REPORTED: Mapping[str, StepCosts | None] = {
    **dict.fromkeys(("count", "scale_step_count")),
    **dict.fromkeys(("scale_ups", "scale_downs", "of_actions"), _NO_STEPS),
}
"""These are not known of a group whose members report nothing, as those of an own consumer."""


@dataclass(frozen=True, slots=True)
class GroupWork:
    """The group's work and its members over the measurement window."""

    rate: RateSeries
    work: PartitionWork
    events: Sequence[GroupEvent]
    timelines: Mapping[str, PodTimeline]
    changes: Sequence[ReplicaChange]
    from_at: int
    until_at: int
    nominal_rate_per_second: float | None  # of one pod; None: the settings do not limit it
    message_seconds: float
    hidden: Hidden = NOTHING_HIDDEN  # by the run's actions
    slowness: Reals | None = None  # by bin: cost of a write as a multiple of the settings'


def rebalance_episodes(
    spans: Sequence[EpisodeSpan], group: GroupWork, protocol: RebalanceProtocol | None
) -> tuple[RebalanceEpisode, ...]:
    """Return the episodes of ``spans`` (ascending) with trigger and dip."""
    rate, nothing = group.rate, RateDip(None, 0.0, "there is no sample of the rate")
    noises: list[Noise | None] = [None] * len(spans)
    dips = [nothing] * len(spans)
    if spans and rate.processed.size:
        owners = counting_owners(group.events, rate.started_at, group.work.waiting.shape[0])
        moving = _disturbed(spans, rate, [0.0] * len(spans))
        shown = pod_rate_per_second(
            group.work, owners, [*moving, *_slow(group)], group.nominal_rate_per_second
        )
        rate_of_pod = float("inf") if shown is None else shown
        expectation = Counterfactual(group.work, owners, rate_of_pod, group.slowness)
        starts = [*(span.started_at for span in spans[1:]), None]
        dips = [_dip(*pair, group, expectation) for pair in zip(spans, starts, strict=True)]
        calm = Undisturbed(
            rate,
            expectation,
            rate.bin_of(group.from_at),
            rate.bin_of(group.until_at),
            _disturbed(spans, rate, [dip.over_seconds for dip in dips]),
        )
        noises = [
            None
            if dip.window_seconds is None or dip.expected_rate_per_second is None
            else calm.noise(round(dip.window_seconds * WINDOW_BINS), dip.expected_rate_per_second)
            for dip in dips
        ]
    pods = _pods(group)
    return tuple(
        _episode(number, *of_span, pods, protocol=protocol, group=group)
        for number, of_span in enumerate(zip(spans, dips, noises, strict=True), start=1)
    )


def _slow(group: GroupWork) -> list[tuple[int, int]]:
    """Return the bins [first, last) in which the downstream was slow."""
    if group.slowness is None:
        return []
    is_slow = np.concatenate([[False], group.slowness > 1.0, [False]])
    turns = np.flatnonzero(np.diff(is_slow)).tolist()
    return list(zip(turns[::2], turns[1::2], strict=True))


def unanswered_steps(episodes: Sequence[RebalanceEpisode], group: GroupWork) -> tuple[int, ...]:
    """Return the replica changes under load without an observed rebalance, by instant.

    A change whose pods all ended before they joined moved nothing.
    """
    answered = {at for episode in episodes for at in episode.step_ats}
    pods, members = _pods(group), {event.pod for event in group.events}
    unrecorded = {pods.added[pod].at for pod in _worked_before_joining(group) if pod in pods.added}
    left: list[int] = []
    for change in group.changes:
        own = pods.of_step(change)
        never_came = (
            own
            and not own & members
            and all(
                pod in group.timelines and group.timelines[pod].gone_at is not None for pod in own
            )
        )
        is_answered = change.at in answered and change.at not in unrecorded
        if not is_answered and not never_came and _had_work(group, change.at):
            left.append(change.at)
    return tuple(left)


def _worked_before_joining(group: GroupWork) -> set[str]:
    """Return the pods that worked before they were seen in the group: reports are missing."""
    rates = group.work.pod_rates
    first_seen: dict[str, int] = {}
    for event in group.events:
        first_seen.setdefault(event.pod, event.at)
    found: set[str] = set()
    for pod, done in zip(rates.pods, rates.done, strict=True) if rates is not None else ():
        seconds = np.flatnonzero(done)
        if seconds.size and pod in first_seen:
            began_at = group.rate.at_bin((int(seconds[0]) + 2) * POD_BINS)
            if began_at < first_seen[pod]:
                found.add(pod)
    return found


def rebalances(
    episodes: Sequence[RebalanceEpisode],
    gaps: PartitionGaps | None,
    *,
    unanswered: tuple[int, ...] = (),
    detail: str = "",
) -> Rebalances:
    """Return the summary; a maximum or sum with a part that was not measured is None.

    A step without work to lose is left out. A step that could not be measured is not.
    """
    steps = [episode for episode in episodes if episode.trigger in SCALE_STEPS]
    busy = [episode for episode in steps if episode.reason not in NO_WORK_REASONS]
    costs = StepCosts.of(steps)
    return Rebalances(
        episodes=tuple(episodes),
        count=len(episodes),
        scale_step_count=len(steps),
        max_dip_percent=costs.max_dip_percent,
        total_dip_area_messages=of_all([episode.dip_area_messages for episode in busy], sum),
        max_recovery_seconds=costs.max_recovery_seconds,
        partition_gaps=gaps,
        max_short_dip_percent=of_all([episode.short_dip_percent for episode in busy], max),
        max_area_seconds=costs.max_area_seconds,
        unanswered_step_ats=unanswered,
        detail=detail,
        scale_ups=StepCosts.of(e for e in episodes if e.trigger == "scale_up"),
        scale_downs=StepCosts.of(e for e in episodes if e.trigger == "scale_down"),
        of_actions=StepCosts.of(e for e in episodes if e.trigger == "action"),
    )


def _pods(group: GroupWork) -> ReplicaPods:
    return replica_pods(group.changes, group.events, group.timelines)


def _dip(
    span: EpisodeSpan, next_at: int | None, group: GroupWork, expectation: Counterfactual
) -> RateDip:
    """Return the dip of ``span``: a partition without an owner is watched until it has one."""
    last_at = group.until_at if next_at is None else next_at
    settled_at = last_at if span.settled_at is None else min(span.settled_at, last_at)
    watched = episode_bins(
        group.rate,
        started_at=span.started_at,
        settled_at=max(settled_at, span.last_at),
        next_started_at=min(last_at, group.until_at),
    )
    if watched.first >= watched.watch:
        return RateDip(None, 0.0, "there is no sample of the rate after it")
    return rate_dip(
        group.rate,
        watched,
        expectation.expected(watched.first, watched.watch),
        available=expectation.available(watched.first, watched.watch),
        undone=expectation.undone(watched.first, watched.watch),
        message_seconds=group.message_seconds,
    )


def _disturbed(
    spans: Sequence[EpisodeSpan], rate: RateSeries, over_seconds: Sequence[float]
) -> list[tuple[int, int]]:
    """Return the bins in which partitions moved, with a second before and the aftermath.

    ``over_seconds``: how long after its start each episode had its effect, if that is longer.
    """
    after_ns = round(AFTERMATH_SECONDS * NANOSECONDS)
    merged: list[tuple[int, int]] = []
    for span, seconds in zip(spans, over_seconds, strict=True):
        first = rate.bin_of(span.started_at - NANOSECONDS)
        over_at = span.started_at + round(seconds * NANOSECONDS)
        last = rate.bin_of(max(span.last_at + after_ns, over_at))
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def _had_work(group: GroupWork, at: int) -> bool:
    """Return whether there was work from ``at`` on, for as long as an episode is watched."""
    first = group.rate.bin_of(at)
    watch_at = min(at + round(WATCH_SECONDS * NANOSECONDS), group.until_at)
    last = group.rate.bin_of(watch_at)
    if first >= last:
        return False
    waited = group.work.waiting[:, first].sum(dtype=float)
    arrived = group.work.arrivals[:, first:last].sum(dtype=float)
    return bool(waited + arrived >= SMALLEST_EXPECTED)


def _episode(
    number: int,
    span: EpisodeSpan,
    dip: RateDip,
    noise: Noise | None,
    pods: ReplicaPods,
    *,
    protocol: RebalanceProtocol | None,
    group: GroupWork,
) -> RebalanceEpisode:
    trigger, text, steps = episode_trigger(span, pods)
    trigger, text = caused_by_action(span, trigger, text, group.hidden)
    unowned = ""
    if span.ended_at is None:
        unowned = f"partitions {list(span.unowned)} were left without an owner"
    noises = {} if noise is None else asdict(noise)
    measured = asdict(dip)
    del measured["over_seconds"]
    return RebalanceEpisode(
        number=number,
        started_at=span.started_at,
        ended_at=span.ended_at,
        duration_seconds=None
        if span.ended_at is None
        else (span.ended_at - span.started_at) / NANOSECONDS,
        trigger=trigger,
        trigger_text=text,
        pods_joined=span.joined,
        pods_left=tuple(sorted({*span.left, *span.died})),
        members_before=span.members_before,
        members_after=span.members_after,
        protocol=protocol,
        partitions_moved=span.partitions_moved,
        mean_rate_before_per_second=mean_rate_before(group.rate, span.started_at)
        if group.rate.processed.size
        else None,
        **measured | {"reason": dip.reason or unowned},
        **noises,
        step_ats=tuple(change.at for change in steps),
    )
