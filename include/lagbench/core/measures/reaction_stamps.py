"""Find t2 of the reaction chain: when the autoscaler read the value it acted on, and the source.

The embedded autoscaler (and the bench's own on a cluster) reports every sync and poll. The HPA of a
cluster reports only its status: the recorder sees the first status with a metric above the
threshold a moment after the sync that read it. An HPA scales before it writes its status, in the
same pass; so if it scaled, it had read the metric by then. KEDA at zero replicas reports nothing
about a poll except its scaling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from lagbench.core.clocks import ONE_CLOCK, Clock, ClockSet
from lagbench.core.measures.evidence.lag_readings import Gap, LagSeries, gaps_between, gaps_text
from lagbench.core.measures.evidence.pod_timeline import PodTimeline
from lagbench.core.measures.evidence.producer_report import LoadWindow
from lagbench.core.measures.lag_over_time import first_crossing
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.replica_steps import ReplicaChange
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    FirstRecordDone,
    GroupJoined,
    HpaSync,
    KedaPoll,
    LoadStep,
    PartitionsAssigned,
    PartitionsRevoked,
    ProducerProgress,
    Scaled,
    SparkTask,
    StreamFinished,
    StreamStarted,
)
from lagbench.core.telemetry.records_of_recorder import HpaSample

RulingClock = Literal["hpa_sync", "keda_poll", "unknown"]


@dataclass(frozen=True, slots=True)
class Stamp:
    """An instant on the recorder's clock, and its owner's own stamp if that differs."""

    at: int | None
    precision_seconds: float | None = None
    note: str = ""
    stamped_at: int | None = None

    def on(self, clock: Clock | None) -> Stamp:
        """Return the stamp with the error of ``clock``, whose known offset is subtracted."""
        if self.at is None:
            return self
        if clock is None:
            note = _joined(self.note, "its clock is not bounded")
            return replace(self, precision_seconds=None, note=note)
        shift, error = clock.shift_ns, clock.error_ns / NANOSECONDS
        precision = None if self.precision_seconds is None else self.precision_seconds + error
        moved = f"{clock.name} is {shift / NANOSECONDS:+.3f} s off, subtracted" if shift else ""
        return Stamp(self.at, precision, _joined(self.note, moved), self.at + shift)


def autoscaler_reading(
    records: Sequence[TelemetryRecord],
    crossed: Stamp,
    threshold: float | None,
    clock: RulingClock,
    change: ReplicaChange | None,
) -> tuple[Stamp, str | None]:
    """Return the first reading above the threshold and its clock's owner (None: the recorder)."""
    since_at = None  # one precision before the crossing
    if crossed.at is not None and threshold is not None:
        since_at = crossed.at - round((crossed.precision_seconds or 0) * NANOSECONDS)

    def is_sought(at: int, values: Iterable[float | None]) -> bool:
        if threshold is None or since_at is None or at < since_at:
            return False
        return any(value is not None and value > threshold for value in values)

    kind = KedaPoll if clock == "keda_poll" else HpaSync
    readings = sorted((r for r in records if isinstance(r, kind)), key=lambda record: record.at)
    for reading in readings:
        if is_sought(reading.at, reading.metrics.values()):
            return Stamp(reading.at, 0.0, clock.replace("_", " ")), reading.source
    before = [reading for reading in readings if change is not None and reading.at <= change.at]
    if before:  # the policy reads something else (CPU), which is never above the threshold
        note = "the sync that changed the replicas"
        return Stamp(before[-1].at, 0.0, note), before[-1].source
    if not readings:
        seen = None if clock == "keda_poll" else _shown(records, is_sought, change)
        if seen is not None:
            return seen, None
        if change is not None and change.by in ("hpa", "keda"):
            note = f"not reported: {change.by} reads and scales in one pass, so not after t3"
            return Stamp(change.at, change.precision_seconds, note), None
    return Stamp(None, None, "no reading above the threshold was recorded"), None


def _shown(
    records: Sequence[TelemetryRecord],
    is_sought: Callable[[int, Iterable[float | None]], bool],
    change: ReplicaChange | None,
) -> Stamp | None:
    """Return the first status of an HPA that the recorder saw above the threshold."""
    samples = sorted((r for r in records if isinstance(r, HpaSample)), key=lambda s: (s.name, s.at))
    found = [
        (sample.at, before.at)
        for before, sample in pairwise(samples)
        if before.name == sample.name and is_sought(sample.at, sample.totals.values())
    ]
    if not found:
        return None
    at, before_at = min(found)
    if change is not None and change.by == "hpa" and change.at < at:
        note = "not after t3: the HPA scales, then shows in its status what it had read"
        return Stamp(change.at, change.precision_seconds, note)
    note = "the HPA's status as the recorder saw it first, after the sync that read it"
    return Stamp(at, (at - before_at) / NANOSECONDS, note)


def _joined(first: str, second: str) -> str:
    return f"{first}; {second}" if first and second else first or second


@dataclass(frozen=True, slots=True)
class ReactionInput:
    """The input for the chain of the load step at ``step_at``; ``records`` are on one clock."""

    records: Sequence[TelemetryRecord]
    lag: LagSeries
    timelines: Mapping[str, PodTimeline]
    changes: Sequence[ReplicaChange]
    load: LoadWindow
    limits: PolicyLimits
    replicas_at_step: int | None
    until_at: int
    clocks: ClockSet = ONE_CLOCK
    step_at: int | None = None
    has_tasks: bool = False  # the pods are workers of Spark: they join no group, tasks show work
    members_are_pods: bool = True  # members report themselves by the names of their pods
    awaits_pods: bool = False  # pods desired before the step and not Ready then are the new ones

    @property
    def crossing_records(self) -> float | None:
        """Total lag above which more pods are due than at the load step."""
        count = self.replicas_at_step
        return None if count is None else self.limits.scales_above_records(count)

    @property
    def lag_gaps(self) -> list[Gap]:
        """The gaps in total lag from the load step on; empty without a step."""
        if self.step_at is None:
            return []
        return gaps_between(self.lag.known_at, self.step_at, self.until_at)


def first_rise(changes: Sequence[ReplicaChange], step_at: int | None) -> ReplicaChange | None:
    """Return the first rise of the desired replicas at or after the load step."""
    rises = (c for c in changes if c.replicas_after > c.replicas_before)
    return next((c for c in rises if step_at is not None and c.at >= step_at), None)


def reaction_stamps(
    given: ReactionInput, clock: RulingClock
) -> tuple[dict[str, Stamp], str | None]:
    """Return the stamps by link, and the pod of those from t4 on; empty without a spike."""
    step_at, threshold = given.step_at, given.crossing_records
    if step_at is None:
        return {}, None

    def on_clock_of(source: str | None, stamp: Stamp) -> Stamp:
        return stamp if source is None else stamp.on(given.clocks.of_pod(source))

    reported = StreamStarted | LoadStep | ProducerProgress | StreamFinished
    producer = next((r.source for r in given.records if isinstance(r, reported)), "")
    change = first_rise(given.changes, step_at)
    crossed = _crossed(given, step_at, threshold)
    read, reader = autoscaler_reading(given.records, crossed, threshold, clock, change)
    stamps = {
        "t0": on_clock_of(producer, Stamp(step_at, 0.0, "planned instant")),
        "t1": crossed,
        "t2": on_clock_of(reader, read),
    }
    pods = list(given.timelines.values())
    if change is None:  # only those that were desired before the step and not Ready then
        pods = [pod for pod in pods if pod.ready_at is None or pod.ready_at > step_at]
        pods = pods if given.awaits_pods else []
    else:
        changed = Stamp(change.at, change.precision_seconds, f"by {change.by}")
        scalers = (r for r in given.records if isinstance(r, Scaled) and r.at == change.at)
        stamps["t3"] = on_clock_of(next((r.source for r in scalers), None), changed)
        early = round(max(change.precision_seconds, 1.0) * NANOSECONDS)
        pods = [pod for pod in pods if pod.created_at >= change.at - early]
    pod, of_pod = _first_new_pod(given, pods)
    return {**stamps, **of_pod}, pod


def ruling_clock(replicas: int | None) -> tuple[RulingClock, str]:
    """Return which clock decides when a rise in lag is noticed, and why."""
    if replicas is None:
        return "unknown", "replicas at the load step unknown"
    if replicas == 0:
        return "keda_poll", "from 0 replicas KEDA's pollingInterval rules"
    return "hpa_sync", f"from {replicas} replicas the HPA's sync rules, not KEDA's pollingInterval"


def _crossed(given: ReactionInput, step_at: int, threshold: float | None) -> Stamp:
    if threshold is None:
        return Stamp(None, None, "no threshold to cross")
    crossing = first_crossing(given.lag, step_at, threshold)
    if crossing is None or crossing.at > given.until_at:
        gaps = gaps_text("total lag", given.lag_gaps, given.load.origin_at)
        note = f"no sample of total lag is above {threshold:g}"
        return Stamp(None, None, f"{note}; {gaps}" if gaps else note)
    how = "interpolated between two samples" if crossing.is_interpolated else "first sample"
    return Stamp(crossing.at, crossing.precision_seconds, how)


def _first_new_pod(
    given: ReactionInput, timelines: Sequence[PodTimeline]
) -> tuple[str | None, dict[str, Stamp]]:
    chains = [
        (timeline.pod, pod_stamps(given.records, timeline, given.clocks, has_tasks=given.has_tasks))
        for timeline in timelines
        if timeline.created_at <= given.until_at
    ]
    if not chains:
        return None, {}

    def furthest(chain: tuple[str, dict[str, Stamp]]) -> tuple[int, int, str]:
        instants = [stamp.at for stamp in chain[1].values() if stamp.at is not None]
        last = chain[1]["t8"].at
        return -len(instants), last if last is not None else max(instants), chain[0]

    return min(chains, key=furthest)


def pod_stamps(
    records: Sequence[TelemetryRecord], timeline: PodTimeline, clocks: ClockSet, *, has_tasks: bool
) -> dict[str, Stamp]:
    """Return when a pod was created, Ready, joined, assigned and at work (t4 to t8)."""
    own = [record for record in records if record.source == timeline.pod]
    joined = [r.at for r in own if isinstance(r, GroupJoined)]
    done = [r.at for r in own if isinstance(r, FirstRecordDone)]
    clock = clocks.of_pod(timeline.pod)
    of_pod = {
        "t4": Stamp(timeline.created_at, timeline.created_precision_seconds, timeline.note),
        "t5": Stamp(timeline.ready_at, timeline.ready_precision_seconds, timeline.note),
    }
    if has_tasks:
        # A worker of Spark: a task is its partition and its work at once.
        tasks = [r for r in own if isinstance(r, SparkTask)]
        first = min(tasks, key=lambda task: task.at, default=None)
        began, ended = (None, None) if first is None else (first.started_at, first.at)
        ended_stamp = Stamp(ended, 0.0).on(clock)
        return of_pod | {"t6": Stamp(began, 0.0).on(clock), "t7": ended_stamp, "t8": ended_stamp}
    return of_pod | {
        "t6": Stamp(min(joined, default=None), 0.0).on(clock),
        "t7": _first_owned(own, since_at=max([*joined[:1], timeline.created_at])).on(clock),
        "t8": Stamp(min(done, default=None), 0.0).on(clock),
    }


def _first_owned(own: Sequence[TelemetryRecord], *, since_at: int) -> Stamp:
    """Return when a pod first owned a partition, by its own records.

    The pod counts its rebalances from 1. If a number before that one is missing, a record was
    lost: the pod then first owned something at an unknown instant since ``since_at``.
    """
    moves = [r for r in own if isinstance(r, PartitionsAssigned | PartitionsRevoked)]
    owning = [r for r in moves if isinstance(r, PartitionsAssigned) and r.owned]
    if not owning:
        return Stamp(None)
    first = min(owning, key=lambda record: record.at)
    reported = {record.rebalance for record in moves}
    if reported.issuperset(range(1, first.rebalance)):
        return Stamp(first.at, 0.0)
    unsure_seconds = max(0, first.at - since_at) / NANOSECONDS
    return Stamp(first.at, unsure_seconds, "an earlier record of its assignment is missing")
