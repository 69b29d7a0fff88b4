"""Follow the replicas of a run: changes, flips, pod-minutes, the baseline."""

from __future__ import annotations

from lagbench.core.live.line import LiveCell
from lagbench.core.measures import NANOSECONDS
from lagbench.core.measures.replicas import replica_changes
from lagbench.core.telemetry import (
    KubeEvent,
    Record,
    ReplicaSample,
    ReplicasChanged,
    Scaled,
    TelemetryRecord,
)


class ReplicasSoFar:
    """The records that show a change of the replicas, and the sums of the others."""

    def __init__(self, cell: LiveCell) -> None:
        """Start before the stream."""
        self._floor = cell.floor_replicas
        self._spikes = cell.spikes
        self._planned_ns = round(cell.planned_seconds * NANOSECONDS)
        self._changes: list[TelemetryRecord] = []
        self._newest: ReplicaSample | None = None
        self._pod_ns = 0
        self._started_at: int | None = None
        self._counted: tuple[int, int] | None = None  # records, flips
        self.was_off_floor = False

    def start(self, stream_started_at: int) -> None:
        """Take the instant of the stream's start (unix ns)."""
        self._started_at = stream_started_at

    def take(self, record: Record) -> None:
        """Update with a record."""
        if isinstance(record, ReplicaSample):
            self._take_sample(record)
        elif isinstance(record, (Scaled, ReplicasChanged)) or (
            isinstance(record, KubeEvent) and record.reason == "SuccessfulRescale"
        ):
            self._changes.append(record)

    def flips(self, now: int) -> int | None:
        """Return the flips since the stream's start; None before the first sample."""
        if self._started_at is None or self._newest is None:
            return None
        if self._counted is None or self._counted[0] != len(self._changes):
            changes = replica_changes(
                [*self._changes, self._newest],
                from_at=self._started_at,
                until_at=now,
                last_spike_ended_at=self._last_spike_ended_at(self._started_at),
            )
            self._counted = len(self._changes), sum(change.is_flip for change in changes)
        return self._counted[1]

    def pod_minutes(self, now: int) -> float | None:
        """Return the time of all existing pods in the planned window, up to ``now``."""
        newest = self._newest
        if newest is None or self._started_at is None:
            return None
        open_ns = newest.current * self._planned_between(newest.at, now)
        return (self._pod_ns + open_ns) / NANOSECONDS / 60

    def _take_sample(self, sample: ReplicaSample) -> None:
        before, self._newest = self._newest, sample
        if before is None or sample.spec != before.spec:
            # The sample before a change bounds its instant.
            self._changes += [sample] if before is None else [before, sample]
        if self._started_at is None or sample.at < self._started_at:
            return
        if before is not None:
            self._pod_ns += before.current * self._planned_between(before.at, sample.at)
        first = min((spike.start_seconds for spike in self._spikes), default=float("inf"))
        is_baseline = sample.at < self._started_at + first * NANOSECONDS
        self.was_off_floor |= is_baseline and sample.spec != self._floor

    def _planned_between(self, from_at: int, until_at: int) -> int:
        """Return the part of [from_at, until_at] in the planned window, in nanoseconds."""
        started_at = self._started_at or 0
        ends_at = started_at + self._planned_ns
        return max(min(until_at, ends_at) - max(from_at, started_at), 0)

    def _last_spike_ended_at(self, started_at: int) -> int | None:
        ends = [started_at + round(spike.end_seconds * NANOSECONDS) for spike in self._spikes]
        return max(ends, default=None)
