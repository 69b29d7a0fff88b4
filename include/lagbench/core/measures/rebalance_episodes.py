"""Find rebalance episodes: start, end, pods that joined and left, and trigger.

An episode runs from the first event of the group (a join, revoke, SIGTERM, or the death of a
member) to the last event after which every partition taken from its owner has an owner again, every
member has an assignment, and nothing happens for QUIET_SECONDS. While such a partition has no
owner, the episode stays open for at most LONGEST_PAUSE_SECONDS between two events (a killed member
is detected after its session timeout, 45 s by default). It closes earlier if a new member joins or
another pod is asked to stop: that is a rebalance of its own. While only a new member waits, the
episode stays open for at most HEARTBEAT_SECONDS (under KIP-848 the old owners learn of it at their
next heartbeat, 5 s by default). A partition without a known owner before the episode does not keep
it open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from lagbench.core.measures.evidence.group_events import GroupEvent, GroupState
from lagbench.core.measures.evidence.lag_readings import RateSeries
from lagbench.core.measures.evidence.played_actions import Hidden
from lagbench.core.measures.model import NANOSECONDS, MeasureModel, histogram, percentile
from lagbench.core.measures.rate_dip import NO_WORK_REASONS
from lagbench.core.measures.replica_changes import ReplicaPods
from lagbench.core.measures.replica_steps import ReplicaChange
from lagbench.core.scenario.actions import RebalanceProtocol

QUIET_SECONDS = 2.0
HEARTBEAT_SECONDS = 6.0
LONGEST_PAUSE_SECONDS = 60.0
EpisodeTrigger = Literal["start", "scale_up", "scale_down", "pod_death", "action", "other"]
SCALE_STEPS: tuple[EpisodeTrigger, ...] = ("scale_up", "scale_down")


class RebalanceEpisode(MeasureModel):
    """One rebalance of the group and its dip."""

    number: int  # from 1, in order of time
    started_at: int
    ended_at: int | None
    duration_seconds: float | None
    trigger: EpisodeTrigger
    trigger_text: str
    pods_joined: tuple[str, ...]
    pods_left: tuple[str, ...]
    members_before: int
    members_after: int
    protocol: RebalanceProtocol | None
    partitions_moved: int
    mean_rate_before_per_second: float | None
    min_rate_per_second: float | None
    dip_percent: float | None
    dip_area_messages: float | None
    recovery_seconds: float | None
    observed_seconds: float  # how long the rate was watched after the episode began
    reason: str  # why the dip or its recovery was not measured; empty when both were
    expected_rate_per_second: float | None = None  # in the deepest window, like the next; old: None
    window_seconds: float | None = None
    dip_noise_percent: float | None = None  # noise in undisturbed periods; None: there were none
    short_dip_percent: float | None = None  # the deepest window of a fifth of that length
    short_dip_noise_percent: float | None = None
    area_seconds: float | None = None  # the area in seconds of the expected rate
    area_noise_seconds: float | None = None
    step_ats: tuple[int, ...] = ()  # the replica changes that it answers


@dataclass(frozen=True, slots=True)
class EpisodeSpan:
    """An episode without its dip.

    ``settled_at`` is when every partition taken from its owner had an owner again, which may be
    long after the episode's last event; None: not seen.
    """

    started_at: int
    ended_at: int | None  # None: a partition was left without an owner
    joined: tuple[str, ...]
    left: tuple[str, ...]
    died: tuple[str, ...]
    members_before: int
    members_after: int
    partitions_moved: int
    unowned: tuple[int, ...]
    last_at: int
    settled_at: int | None
    returned: tuple[str, ...] = ()  # those in ``joined`` that had been members before

    @property
    def newcomers(self) -> tuple[str, ...]:
        """Return the pods that joined for the first time."""
        return tuple(pod for pod in self.joined if pod not in self.returned)


def episode_spans(
    events: Sequence[GroupEvent], *, found: Sequence[GroupEvent] = ()
) -> list[EpisodeSpan]:
    """Return the episodes in ``events`` (ascending by instant).

    ``found`` describes the members that were there before; it is not an episode.
    """
    spans: list[EpisodeSpan] = []
    state, index = GroupState(), 0
    for event in found:
        state.apply(event)
    known = set(state.members)
    while index < len(events):
        members, owner = set(state.members), dict(state.owner)
        first = index
        state.apply(events[index])
        index += 1
        while index < len(events) and _belongs(events[index - 1], events[index], state, owner):
            state.apply(events[index])
            index += 1
        span = _span(events[first:index], members, owner, state)
        returned = tuple(pod for pod in span.joined if pod in known)
        settled_at = _settled_at(span, events[index:])
        spans.append(replace(span, returned=returned, settled_at=settled_at))
        known |= state.members
    return spans


def _belongs(
    last: GroupEvent, following: GroupEvent, state: GroupState, owner: dict[int, str]
) -> bool:
    pause_seconds = (following.at - last.at) / NANOSECONDS
    if pause_seconds <= QUIET_SECONDS:
        return True
    if state.waiting:
        # The first rebalance waits for all members: 24 took 10.6 s under KIP-848.
        return pause_seconds <= (HEARTBEAT_SECONDS if owner else LONGEST_PAUSE_SECONDS)
    is_own_cause = following.kind in ("joined", "sigterm")
    is_open = any(partition not in state.owner for partition in owner)
    return is_open and not is_own_cause and pause_seconds <= LONGEST_PAUSE_SECONDS


def _span(
    events: Sequence[GroupEvent], members: set[str], owner: dict[int, str], state: GroupState
) -> EpisodeSpan:
    came = {event.pod for event in events if event.kind in ("joined", "assigned")} - members
    died = {event.pod for event in events if event.kind == "died"}
    left = {event.pod for event in events if event.kind in ("left", "sigterm")} - died
    moved = [p for p, pod in state.owner.items() if owner.get(p, pod) != pod]
    unowned = tuple(sorted(partition for partition in owner if partition not in state.owner))
    return EpisodeSpan(
        started_at=events[0].at,
        ended_at=None if unowned else events[-1].at,
        joined=tuple(sorted(came)),
        left=tuple(sorted(left)),
        died=tuple(sorted(died)),
        members_before=len(members),
        members_after=len(state.members),
        partitions_moved=len(moved),
        unowned=unowned,
        last_at=events[-1].at,
        settled_at=None,
    )


def _settled_at(span: EpisodeSpan, later: Sequence[GroupEvent]) -> int | None:
    settled_at, missing = span.last_at, set(span.unowned)
    for event in later:
        if not missing:
            break
        if event.kind == "assigned" and event.owned is not None and missing & event.owned:
            missing -= event.owned
            settled_at = event.at
    return None if missing else settled_at


def episode_trigger(
    span: EpisodeSpan, pods: ReplicaPods
) -> tuple[EpisodeTrigger, str, tuple[ReplicaChange, ...]]:
    """Return the episode's trigger, its text, and the replica changes that it answers.

    A scale step has priority over a death: a pod that dies while others join does not reduce the
    cost of the step. ``start``: there was no member before. A join or leave of a pod that no scale
    step created or removed is ``other`` (a pod was deleted or replaced by hand).
    """
    ups = _steps([pods.added.get(pod) for pod in span.newcomers])
    downs = _steps([pods.removed.get(pod) for pod in span.left])
    steps = (*ups, *downs)
    if span.members_before == 0 and span.joined:
        return "start", f"the first {span.members_after} members joined", steps
    if ups:
        return "scale_up", _step_text(ups[-1], span), steps
    if downs:
        return "scale_down", _step_text(downs[-1], span), steps
    if span.died:
        return "pod_death", f"{', '.join(span.died)} died without leaving the group", ()
    return "other", _unexplained(span), ()


def caused_by_action(
    span: EpisodeSpan, trigger: EpisodeTrigger, text: str, hidden: Hidden
) -> tuple[EpisodeTrigger, str]:
    """Return trigger and text, as those of an action if no scaling explains the episode.

    It must have begun in the action's window, and all pods that it concerns must be the action's.
    """
    if trigger not in ("pod_death", "other"):
        return trigger, text
    pods = {*span.joined, *span.left, *span.died}
    action = hidden.by("rebalance", span.started_at, pods=pods)
    return (trigger, text) if action is None else ("action", f"{action.name}: {text}")


def _steps(found: Sequence[ReplicaChange | None]) -> tuple[ReplicaChange, ...]:
    """Return each change once, by instant."""
    by_instant = {change.at: change for change in found if change is not None}
    return tuple(by_instant[at] for at in sorted(by_instant))


def _unexplained(span: EpisodeSpan) -> str:
    if span.joined:
        return f"{', '.join(span.joined)} joined without a scale step"
    if span.left:
        return f"{', '.join(span.left)} left without a scale step"
    return "partitions moved, but no member joined or left"


def _step_text(change: ReplicaChange, span: EpisodeSpan) -> str:
    steps = f"{change.replicas_before} to {change.replicas_after} replicas by {change.by}"
    counts = ((span.joined, "joined"), (span.left, "left"), (span.died, "died"))
    moves = [f"{len(pods)} {verb}" for pods, verb in counts if pods]
    return f"{steps}; {', '.join(moves)}"


AROUND_SECONDS = 5


def idle_scale_downs_text(changes: Sequence[ReplicaChange], rate: RateSeries) -> str:
    """Report that all scale-downs happened in an idle group; empty if any did not, or none came."""
    downs = [change.at for change in changes if change.replicas_after < change.replicas_before]
    reach = AROUND_SECONDS * NANOSECONDS
    if not downs or any(rate.processed_between(at - reach, at + reach) for at in downs):
        return ""
    return (
        "all scale-downs happened in an idle group: that nothing was lost or done twice in them "
        "proves nothing about a scale-down under load"
    )


SETTLED_STATES = frozenset({"STABLE", "EMPTY", "DEAD"})
"""In every other state partitions are being assigned. librdkafka 2.16 has no names for the states
ASSIGNING and RECONCILING of the consumer protocol and reports UNKNOWN."""
Holding = tuple[str, tuple[tuple[str, int], ...]]
"""A member's instance id, else its member id, and its partitions as (topic, partition)."""


class GroupLook(MeasureModel):
    """The group at one instant (unix seconds), as its coordinator described it."""

    at_seconds: float
    state: str
    holdings: tuple[Holding, ...]

    @classmethod
    def of(cls, at_seconds: float, state: str, holdings: Iterable[Holding]) -> GroupLook:
        """Return the look; the order of the members does not count."""
        return cls(at_seconds=at_seconds, state=state, holdings=tuple(sorted(holdings)))

    def has_moved_since(self, before: GroupLook | None) -> bool:
        """Return whether a rebalance is in progress or has happened since the look before."""
        if self.state not in SETTLED_STATES:
            return True
        if before is None or before.state not in SETTLED_STATES:
            return False  # the movement was seen already; its result is no other rebalance
        return self.holdings != before.holdings


class WatchedGroup(MeasureModel):
    """The looks at a group so far: the rebalances seen, and how closely it was watched."""

    last: GroupLook
    looks: int = 1
    rebalances: int = 0
    moved_at_seconds: float | None = None
    most_members: int = 0
    longest_gap_seconds: float = 0.0

    @classmethod
    def first(cls, look: GroupLook) -> WatchedGroup:
        """Return the watch after its first look; a rebalance in progress counts."""
        moved = look.has_moved_since(None)
        return cls(
            last=look,
            rebalances=int(moved),
            moved_at_seconds=look.at_seconds if moved else None,
            most_members=len(look.holdings),
        )

    def after(self, look: GroupLook) -> WatchedGroup:
        """Return the watch after one more look."""
        moved = look.has_moved_since(self.last)
        last_moved = self.moved_at_seconds
        was_settled = self.last.state in SETTLED_STATES
        is_another = moved and (
            last_moved is None or (was_settled and look.at_seconds - last_moved >= QUIET_SECONDS)
        )
        return WatchedGroup(
            last=look,
            looks=self.looks + 1,
            rebalances=self.rebalances + int(is_another),
            moved_at_seconds=look.at_seconds if moved else last_moved,
            most_members=max(self.most_members, len(look.holdings)),
            longest_gap_seconds=self.until(look.at_seconds),
        )

    def until(self, at_seconds: float) -> float:
        """Return the longest time without a look, if none came before ``at_seconds``."""
        return max(self.longest_gap_seconds, at_seconds - self.last.at_seconds)


BOUNDS_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class GapBin(MeasureModel):
    """Handovers with a gap above the previous bin's bound and up to ``up_to_seconds``."""

    up_to_seconds: float | None  # None: everything above
    count: int


class PartitionGaps(MeasureModel):
    """Handovers of partitions: last record by the old owner to the first by the new one.

    Counted are partitions handed over to a pod of another name, as the ledger has their work. A
    StatefulSet's pod that comes back under its name to its own partitions does not count.
    """

    handovers: int
    p50_seconds: float | None
    p95_seconds: float | None
    max_seconds: float | None
    max_partition: int | None
    histogram: tuple[GapBin, ...]


@dataclass(frozen=True, slots=True)
class Handover:
    """A partition went from one pod to another."""

    partition: int
    next_done_at: int
    gap_seconds: float


def partition_gaps(handovers: Sequence[Handover]) -> PartitionGaps:
    """Return the histogram of the gaps and its percentiles."""
    gaps = [max(0.0, handover.gap_seconds) for handover in handovers]
    widest = max(handovers, key=lambda handover: handover.gap_seconds, default=None)
    return PartitionGaps(
        handovers=len(gaps),
        p50_seconds=percentile(gaps, 50),
        p95_seconds=percentile(gaps, 95),
        max_seconds=max(gaps, default=None),
        max_partition=None if widest is None else widest.partition,
        histogram=tuple(
            GapBin(up_to_seconds=bound, count=count)
            for bound, count in histogram(gaps, BOUNDS_SECONDS)
        ),
    )


class StepCosts(MeasureModel):
    """The dips of the episodes of one kind; None: there was none with work, or one is unknown."""

    steps: int | None = 0  # with work to lose; None: not known
    idle_steps: int | None = 0  # without
    mean_dip_percent: float | None = None
    max_dip_percent: float | None = None
    mean_area_seconds: float | None = None
    max_area_seconds: float | None = None
    max_recovery_seconds: float | None = None

    @classmethod
    def of(cls, episodes: Iterable[RebalanceEpisode]) -> StepCosts:
        """Return the summary of episodes."""
        own = list(episodes)
        busy = [episode for episode in own if episode.reason not in NO_WORK_REASONS]
        dips = [episode.dip_percent for episode in busy]
        areas = [episode.area_seconds for episode in busy]
        return cls(
            steps=len(busy),
            idle_steps=len(own) - len(busy),
            mean_dip_percent=of_all(dips, fmean),
            max_dip_percent=of_all(dips, max),
            mean_area_seconds=of_all(areas, fmean),
            max_area_seconds=of_all(areas, max),
            max_recovery_seconds=of_all([episode.recovery_seconds for episode in busy], max),
        )


def of_all(
    values: Sequence[float | None], summarise: Callable[[list[float]], float]
) -> float | None:
    """Return the summary of all values; None if there is none, or if one is not known."""
    known = [value for value in values if value is not None]
    return summarise(known) if known and len(known) == len(values) else None
