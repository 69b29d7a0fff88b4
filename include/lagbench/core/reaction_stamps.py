"""The instants of the reaction chain, as their owners stamped them (definitions: reaction.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lagbench.core.lag import LagSeries, first_crossing
from lagbench.core.measures import NANOSECONDS, LoadWindow, ReplicaChange
from lagbench.core.pod_time import PodLife
from lagbench.core.policy_limits import PolicyLimits
from lagbench.core.scaling_measures import RulingClock
from lagbench.core.telemetry import (
    FirstRecordDone,
    GroupJoined,
    HpaSync,
    KedaPoll,
    PartitionsAssigned,
    TelemetryRecord,
)


@dataclass(frozen=True, slots=True)
class Stamp:
    """An instant as its owner stamped it."""

    at: int | None
    precision_seconds: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ReactionInput:
    """What the chain is read from."""

    records: Sequence[TelemetryRecord]
    lag: LagSeries
    lives: Mapping[str, PodLife]
    changes: Sequence[ReplicaChange]
    load: LoadWindow
    limits: PolicyLimits
    replicas_at_step: int | None
    until_at: int

    @property
    def crossing_records(self) -> float | None:
        """Total lag that asks for more than the replicas at the load step."""
        per_replica, count = self.limits.lag_threshold_records, self.replicas_at_step
        return None if per_replica is None or count is None else per_replica * max(1, count)


def reaction_stamps(
    given: ReactionInput, clock: RulingClock
) -> tuple[dict[str, Stamp], str | None]:
    """Return the stamps by link, and the pod whose they are from t4 on; empty without a spike."""
    step_at, threshold = given.load.first_spike_started_at, given.crossing_records
    if step_at is None:
        return {}, None
    change = next((c for c in given.changes if _is_rise(c) and c.at >= step_at), None)
    crossed = _crossed(given.lag, step_at, threshold, given.until_at)
    stamps = {
        "t0": Stamp(step_at, 0.0, "planned instant"),
        "t1": crossed,
        "t2": _read(given.records, crossed, threshold, clock, change),
    }
    if change is None:
        return stamps, None
    stamps["t3"] = Stamp(change.at, change.precision_seconds, f"by {change.by}")
    pod, of_pod = _first_new_pod(given, change)
    return {**stamps, **of_pod}, pod


def _is_rise(change: ReplicaChange) -> bool:
    return change.replicas_after > change.replicas_before


def ruling_clock(replicas: int | None) -> tuple[RulingClock, str]:
    """Return which clock decides when a rise in lag is noticed, and why."""
    if replicas is None:
        return "unknown", "replicas at the load step unknown"
    if replicas == 0:
        return "keda_poll", "from 0 replicas KEDA's pollingInterval rules"
    return "hpa_sync", f"from {replicas} replicas the HPA's sync rules, not KEDA's pollingInterval"


def _crossed(series: LagSeries, step_at: int, threshold: float | None, until_at: int) -> Stamp:
    if threshold is None:
        return Stamp(None, None, "no threshold to cross")
    crossing = first_crossing(series, step_at, threshold)
    if crossing is None or crossing.at > until_at:
        return Stamp(None, None, f"total lag was never seen above {threshold:g}")
    how = "interpolated between two samples" if crossing.is_interpolated else "first sample"
    return Stamp(crossing.at, crossing.precision_seconds, how)


def _read(
    records: Sequence[TelemetryRecord],
    crossed: Stamp,
    threshold: float | None,
    clock: RulingClock,
    change: ReplicaChange | None,
) -> Stamp:
    """Return the first reading above the threshold, at most one precision before the crossing.

    A policy that reads something else (CPU) never shows such a reading: then the sync that changed
    the replicas is the one that read what it acted on.
    """
    kind = KedaPoll if clock == "keda_poll" else HpaSync
    readings = sorted((r for r in records if isinstance(r, kind)), key=lambda record: record.at)
    if threshold is not None and crossed.at is not None:
        since_at = crossed.at - round((crossed.precision_seconds or 0) * NANOSECONDS)
        for reading in readings:
            seen = [value for value in reading.metrics.values() if value is not None]
            if reading.at >= since_at and seen and max(seen) > threshold:
                return Stamp(reading.at, 0.0, clock.replace("_", " "))
    if change is not None:
        before = [reading for reading in readings if reading.at <= change.at]
        if before:
            return Stamp(before[-1].at, 0.0, "the sync that changed the replicas")
    return Stamp(None, None, "no reading above the threshold was recorded")


def _first_new_pod(
    given: ReactionInput, change: ReplicaChange
) -> tuple[str | None, dict[str, Stamp]]:
    early = round(max(change.precision_seconds, 1.0) * NANOSECONDS)
    chains = [
        (life.pod, _pod_stamps(given.records, life))
        for life in given.lives.values()
        if life.created_at >= change.at - early and life.created_at <= given.until_at
    ]
    if not chains:
        return None, {}

    def furthest(chain: tuple[str, dict[str, Stamp]]) -> tuple[int, int, str]:
        instants = [stamp.at for stamp in chain[1].values() if stamp.at is not None]
        last = chain[1]["t8"].at
        return -len(instants), last if last is not None else max(instants), chain[0]

    return min(chains, key=furthest)


def _pod_stamps(records: Sequence[TelemetryRecord], life: PodLife) -> dict[str, Stamp]:
    own = [record for record in records if record.source == life.pod]
    joined = [r.at for r in own if isinstance(r, GroupJoined)]
    assigned = [r.at for r in own if isinstance(r, PartitionsAssigned) and r.owned]
    done = [r.at for r in own if isinstance(r, FirstRecordDone)]
    return {
        "t4": Stamp(life.created_at, life.precision_seconds),
        "t5": Stamp(life.ready_at, life.precision_seconds),
        "t6": Stamp(min(joined, default=None), 0.0),
        "t7": Stamp(min(assigned, default=None), 0.0),
        "t8": Stamp(min(done, default=None), 0.0),
    }
