"""The standing of each SLO: the evidence of a run in progress so far.

A standing is not a verdict. Its value is that of the measure itself (``core/measures``), of the
records so far and without the errors of clocks, and only of the SLOs that telemetry can show. The
accounting decides the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lagbench.core.live.live_line import LiveCell, LiveSlo, SloStanding, SloState
from lagbench.core.measures.drain import drained
from lagbench.core.measures.evidence.lag_readings import LagSeries
from lagbench.core.measures.evidence.played_actions import TopicPartitions
from lagbench.core.measures.evidence.pod_timeline import pod_seconds, pod_timelines
from lagbench.core.measures.evidence.producer_report import LoadWindow, SpikeWindow
from lagbench.core.measures.measures import NAMED
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.reaction import worst_reaction
from lagbench.core.measures.reaction_stamps import ReactionInput
from lagbench.core.measures.replica_changes import baseline_at_floor, replica_changes
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.slo_limits import Slos
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    PartitionsAssigned,
    PartitionsRevoked,
    Record,
    Scaled,
    StreamStarted,
)
from lagbench.core.telemetry.records_of_recorder import (
    KubeEvent,
    PodSeen,
    PodsListed,
    ReplicaSample,
    ReplicasChanged,
)
from lagbench.core.verdict.slo import CLAIM, slo_of

_MEASURED = (
    ReplicaSample
    | Scaled
    | ReplicasChanged
    | KubeEvent
    | PodSeen
    | PodsListed
    | PartitionsAssigned
    | PartitionsRevoked
)


def live_slos(slos: Slos) -> list[LiveSlo]:
    """Return the SLOs that have a limit, in the order of the scenario."""
    found = []
    for name, limit in _limits(slos).items():
        named = NAMED.get(name)
        text = CLAIM if limit is True or named is None else slo_of(name, limit).threshold
        found.append(
            LiveSlo(
                name=name,
                title=name.replace("_", " ").capitalize() if named is None else named.title,
                limit=f"{text}, warns" if name in slos.warned else text,
                unit="" if named is None else named.unit,
                number=None if limit is True else limit,
            )
        )
    return found


def _limits(slos: Slos) -> dict[str, float]:
    """Return the limit of each SLO that has one, by its name; True: the claim must hold."""
    return {name: limit for name, limit in slos if limit is not None and limit is not False}


class Standings:
    """Takes records; returns the standing of each SLO that has a limit."""

    def __init__(
        self, slos: Slos, cell: LiveCell, limits: PolicyLimits, *, reports_owners: bool = True
    ) -> None:
        """Start before the stream: every SLO is open.

        Without ``reports_owners`` no reading shows that a pod got a partition, so the reaction is
        left to the end.
        """
        self._slos, self._cell, self._limits = _limits(slos), cell, limits
        self._reports_owners = reports_owners
        self._started_at: int | None = None
        self._records: list[TelemetryRecord] = []
        self._lag: list[tuple[int, int]] = []

    def take(self, record: Record) -> None:
        """Update with a record."""
        if isinstance(record, StreamStarted):
            self._started_at = record.stream_started_at
        elif isinstance(record, _MEASURED):
            self._records.append(record)

    def take_lag(self, at: int, total: int | None) -> None:
        """Update with the total lag at ``at`` (unix ns); None: it is unknown."""
        if total is not None:
            self._lag.append((at, total))

    def at(self, now: int) -> dict[str, SloStanding]:
        """Return the standing of each SLO at ``now`` (unix ns), by its name."""
        if self._started_at is None:
            return dict.fromkeys(self._slos, (None, "open"))
        run = _RunSoFar(self._records, self._lag, self._load(self._started_at), self._limits, now)
        shown: dict[str, Callable[[float], SloStanding]] = {
            "flips": lambda limit: _at_most(run.flips(), limit),
            "pod_minutes": lambda limit: _at_most(run.pod_minutes(), limit),
            "baseline_at_floor": lambda _: (None, _BASELINE[run.is_baseline_at_floor()]),
            "drain_seconds": lambda limit: _wait(run.drain(), limit),
        }
        if self._reports_owners:
            partitions = self._cell.partitions
            shown["reaction_seconds"] = lambda limit: _wait(run.reaction(partitions), limit)
        return {
            name: shown[name](limit) if name in shown else (None, "at_end")
            for name, limit in self._slos.items()
        }

    def _load(self, started_at: int) -> LoadWindow:
        """Return the planned load; its rates decide nothing here."""

        def instant(seconds: float) -> int:
            return started_at + round(seconds * NANOSECONDS)

        windows = tuple(
            SpikeWindow(
                started_at=instant(spike.start_seconds),
                ended_at=instant(spike.end_seconds),
                rate_before_per_second=0.0,
                rate_peak_per_second=0.0,
            )
            for spike in self._cell.spikes
        )
        return LoadWindow(
            stream_started_at=started_at,
            first_spike_started_at=windows[0].started_at if windows else None,
            last_spike_ended_at=windows[-1].ended_at if windows else None,
            spikes=len(windows),
            stream_ended_at=None,
            base_rate_per_second=None,
            spike_rate_per_second=None,
            planned_until_at=instant(self._cell.planned_seconds),
            spike_windows=windows,
        )


_BASELINE: dict[bool | None, SloState] = {None: "open", True: "holds", False: "broken"}


class _RunSoFar:
    """Read the measures of a run up to now; a wait is its seconds and whether it has ended."""

    def __init__(
        self,
        records: Sequence[TelemetryRecord],
        lag: Sequence[tuple[int, int]],
        load: LoadWindow,
        limits: PolicyLimits,
        now: int,
    ) -> None:
        """Read what several measures need."""
        self._records, self._load, self._limits, self._now = records, load, limits, now
        self._started_at = load.stream_started_at or 0
        self._timelines = pod_timelines(records)
        self._changes = replica_changes(
            records,
            from_at=self._started_at,
            until_at=now,
            last_spike_ended_at=load.last_spike_ended_at,
        )
        total = np.array([[total] for _, total in lag], dtype=np.float64).reshape(-1, 1)
        at = np.array([at for at, _ in lag], dtype=np.int64)
        self._lag = LagSeries(at, np.zeros(1, dtype=np.int64), total, total)

    def flips(self) -> int | None:
        """Return the flips since the stream's start; None before the first sample."""
        if not any(isinstance(record, ReplicaSample) for record in self._records):
            return None
        return sum(change.is_flip for change in self._changes)

    def pod_minutes(self) -> float | None:
        """Return the pods' time in the planned window; None: no pod was seen."""
        until_at = min(self._now, self._load.planned_until_at or self._now)
        seconds = pod_seconds(self._timelines, self._started_at, until_at)
        return None if seconds is None else seconds / 60

    def is_baseline_at_floor(self) -> bool | None:
        """Return whether the replicas stayed at the floor until the first spike, or until now."""
        spike_at = self._load.first_spike_started_at
        return baseline_at_floor(
            self._records,
            self._changes,
            floor=self._limits.floor_replicas,
            started=self._limits.started_replicas,
            stream_started_at=self._started_at,
            first_spike_started_at=None if spike_at is None else min(spike_at, self._now),
            until_at=self._now,
        )[0]

    def drain(self) -> tuple[float, bool] | None:
        """Return the wait for the lag to come down after the last spike; None: not begun."""
        threshold, ended_at = self._limits.lag_threshold_records, self._load.last_spike_ended_at
        if threshold is None or ended_at is None or self._now < ended_at:
            return None
        drained_at, _ = drained(self._lag, ended_at, self._now, threshold)
        waited_ns = (self._now if drained_at is None else drained_at) - ended_at
        return waited_ns / NANOSECONDS, drained_at is not None

    def reaction(self, partitions: int) -> tuple[float, bool] | None:
        """Return the wait of the worst spike for its pod; None: none is known to be due."""
        begun = [spike for spike in self._load.spike_windows if spike.started_at <= self._now]
        given = ReactionInput(
            records=self._records,
            lag=self._lag,
            timelines=self._timelines,
            changes=self._changes,
            load=self._load.model_copy(update={"spike_windows": tuple(begun)}),
            limits=self._limits,
            replicas_at_step=None,
            until_at=self._now,
        )
        chain = worst_reaction(
            given, partitions=TopicPartitions(partitions), pod_rate_per_second=None
        )
        if chain.outcome == "reacted" and chain.assigned_seconds is not None:
            return chain.assigned_seconds, True
        if chain.step_number is None or (chain.outcome != "did_not_come" and chain.pod is None):
            return None
        return (self._now - begun[chain.step_number - 1].started_at) / NANOSECONDS, False


def _at_most(value: float | None, limit: float) -> SloStanding:
    if value is None:
        return None, "open"
    return round(value, 1), "broken" if value > limit else "holds"


def _wait(waited: tuple[float, bool] | None, limit: float) -> SloStanding:
    """Judge a wait by its time so far; one that has not ended stays open within the limit."""
    if waited is None:
        return None, "open"
    seconds, has_ended = waited
    return round(seconds, 1), "broken" if seconds > limit else "holds" if has_ended else "open"
