"""The standing of each SLO: the evidence of a run in progress so far.

A standing is not a verdict. It is of the first reading that shows a value, without intervals, gaps
and clocks, and only of the SLOs that telemetry can show. The accounting decides the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from lagbench.core.live.live_line import LiveCell, LiveSlo, SloStanding
from lagbench.core.measures.measures import NAMED
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.replica_changes import replica_changes
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.scenario import Slos
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    PartitionsAssigned,
    Record,
    Scaled,
    StreamStarted,
)
from lagbench.core.telemetry.records_of_recorder import (
    KubeEvent,
    PodSeen,
    ReplicaSample,
    ReplicasChanged,
)
from lagbench.core.verdict.slo import CLAIM, slo_of


def live_slos(slos: Slos) -> list[LiveSlo]:
    """Return the SLOs that have a limit, in the order of the scenario."""
    found = []
    for name, limit in _limits(slos).items():
        named = NAMED.get(name)
        found.append(
            LiveSlo(
                name=name,
                title=name.replace("_", " ").capitalize() if named is None else named.title,
                limit=CLAIM if limit is True or named is None else slo_of(name, limit).threshold,
                unit="" if named is None else named.unit,
            )
        )
    return found


def _limits(slos: Slos) -> dict[str, float]:
    """Return the limit of each SLO that has one, by its name; True: the claim must hold."""
    given = slos.model_dump().items()
    return {name: limit for name, limit in given if limit is not None and limit is not False}


@dataclass(slots=True)
class _Spike:
    started_at: int
    ended_at: int
    reacted_at: int | None = None
    needs_pods: bool = False
    drained_at: int | None = None


@dataclass(slots=True)
class _Pod:
    created_at: int | None = None
    ready_at: int | None = None
    assigned_at: int | None = None


class Standings:
    """Takes records; returns the standing of each SLO that has a limit."""

    def __init__(
        self, slos: Slos, cell: LiveCell, limits: PolicyLimits, *, reports_owners: bool = True
    ) -> None:
        """Start before the stream: every SLO is open.

        Without ``reports_owners`` no reading shows that a pod got a partition, so the reaction is
        left to the end.
        """
        self._reports_owners = reports_owners
        self._slos, self._cell, self._limits = _limits(slos), cell, limits
        self._started_at: int | None = None
        self._spikes: list[_Spike] = []
        self._pods: dict[str, _Pod] = {}
        self._changes: list[TelemetryRecord] = []
        self._newest: ReplicaSample | None = None
        self._pod_ns = 0
        self._counted: tuple[int, int] | None = None  # records, flips
        self._was_off_floor = False

    def take(self, record: Record) -> None:
        """Update with a record."""
        match record:
            case StreamStarted():
                self._started_at = started_at = record.stream_started_at
                self._spikes = [
                    _Spike(
                        started_at + round(spike.start_seconds * NANOSECONDS),
                        started_at + round(spike.end_seconds * NANOSECONDS),
                    )
                    for spike in self._cell.spikes
                ]
            case ReplicaSample():
                self._take_replicas(record)
            case Scaled() | ReplicasChanged() | KubeEvent(reason="SuccessfulRescale"):
                self._changes.append(record)
            case PodSeen():
                pod = self._pods.setdefault(record.pod, _Pod())
                pod.created_at, pod.ready_at = record.created_at, record.ready_at
                self._see(pod)
            case PartitionsAssigned() if record.owned:
                pod = self._pods.setdefault(record.source, _Pod())
                pod.assigned_at = pod.assigned_at or record.at
                self._see(pod)
            case _:
                pass

    def take_lag(self, at: int, total: int | None) -> None:
        """Update with the total lag at ``at`` (unix ns); None: it is unknown."""
        if total is None:
            return
        limits = self._limits
        held = limits.scales_above_records(0 if self._newest is None else self._newest.spec)
        asks_above = None if held is None else held * (1 + limits.flags.tolerance_in_force)
        drained = limits.lag_threshold_records
        for spike in self._spikes:
            if asks_above is not None and at >= spike.started_at and total > asks_above:
                spike.needs_pods = True
            is_first = at >= spike.ended_at and spike.drained_at is None
            if is_first and drained is not None and total <= drained:
                spike.drained_at = at

    def at(self, now: int) -> dict[str, SloStanding]:
        """Return the standing of each SLO at ``now`` (unix ns), by its name."""
        started_at = self._started_at
        if started_at is None:
            return dict.fromkeys(self._slos, (None, "open"))
        return {
            name: self._standing(name, limit, started_at, now) for name, limit in self._slos.items()
        }

    def _standing(self, name: str, limit: float, started_at: int, now: int) -> SloStanding:
        shown: SloStanding = None, "at_end"
        if name == "flips":
            shown = _at_most(self._flips(started_at, now), limit)
        elif name == "pod_minutes":
            shown = _at_most(self._pod_minutes(now), limit)
        elif name == "baseline_at_floor":
            shown = None, "broken" if self._was_off_floor else "holds"
        elif name == "reaction_seconds" and self._reports_owners:
            waits = [
                ((spike.reacted_at or now) - spike.started_at, spike.reacted_at is not None)
                for spike in self._spikes
                if spike.needs_pods and now >= spike.started_at
            ]
            shown = _wait(waits, limit)
        elif name == "drain_seconds":
            has_threshold = self._limits.lag_threshold_records is not None
            waits = [
                ((last.drained_at or now) - last.ended_at, last.drained_at is not None)
                for last in self._spikes[-1:]
                if has_threshold and now >= last.ended_at
            ]
            shown = _wait(waits, limit)
        return shown

    def _flips(self, started_at: int, now: int) -> int | None:
        """Return the flips since the stream's start; None before the first sample."""
        if self._newest is None:
            return None
        if self._counted is None or self._counted[0] != len(self._changes):
            changes = replica_changes(
                [*self._changes, self._newest],
                from_at=started_at,
                until_at=now,
                last_spike_ended_at=max((spike.ended_at for spike in self._spikes), default=None),
            )
            self._counted = len(self._changes), sum(change.is_flip for change in changes)
        return self._counted[1]

    def _pod_minutes(self, now: int) -> float | None:
        """Return the time of all existing pods in the planned window, up to ``now``."""
        newest = self._newest
        if newest is None:
            return None
        open_ns = newest.current * self._planned_between(newest.at, now)
        return (self._pod_ns + open_ns) / NANOSECONDS / 60

    def _take_replicas(self, sample: ReplicaSample) -> None:
        before, self._newest = self._newest, sample
        if before is None or sample.spec != before.spec:
            # The sample before a change bounds its instant.
            self._changes += [sample] if before is None else [before, sample]
        if self._started_at is None or sample.at < self._started_at:
            return
        if before is not None:
            self._pod_ns += before.current * self._planned_between(before.at, sample.at)
        is_baseline = all(sample.at < spike.started_at for spike in self._spikes)
        self._was_off_floor |= is_baseline and sample.spec != self._cell.floor_replicas

    def _planned_between(self, from_at: int, until_at: int) -> int:
        """Return the part of [from_at, until_at] in the planned window, in nanoseconds."""
        started_at = self._started_at or 0
        ends_at = started_at + round(self._cell.planned_seconds * NANOSECONDS)
        return max(min(until_at, ends_at) - max(from_at, started_at), 0)

    def _see(self, pod: _Pod) -> None:
        """Let the first pod that was created since a spike, is Ready and owns end its reaction."""
        if pod.created_at is None or pod.ready_at is None or pod.assigned_at is None:
            return
        for spike in self._spikes:
            if pod.created_at >= spike.started_at and spike.reacted_at is None:
                spike.reacted_at = max(pod.ready_at, pod.assigned_at)


def _at_most(value: float | None, limit: float) -> SloStanding:
    if value is None:
        return None, "open"
    return round(value, 1), "broken" if value > limit else "holds"


def _wait(waits: list[tuple[int, bool]], limit: float) -> SloStanding:
    """Judge the longest wait: its time so far, and whether it has ended; none has begun: open."""
    if not waits:
        return None, "open"
    nanoseconds, has_ended = max(waits)
    seconds = nanoseconds / NANOSECONDS
    if seconds > limit:
        return round(seconds, 1), "broken"
    return round(seconds, 1), "holds" if has_ended else "open"
