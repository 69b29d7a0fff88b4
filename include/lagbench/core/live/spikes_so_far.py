"""Follow what the group does after a spike: its reaction and its drain.

The reaction is that to the spike with the longest one: from its planned start to the first pod,
created since, that is Ready and has a partition. A spike after which the lag never exceeded what
the replicas may hold needs no pod.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lagbench.core.live.line import LiveCell
from lagbench.core.measures import NANOSECONDS
from lagbench.core.policy import PolicyLimits
from lagbench.core.telemetry import PartitionsAssigned, PodSeen, Record, ReplicaSample


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

    @property
    def worked_from(self) -> int | None:
        """The instant from which the pod is Ready and has a partition."""
        if self.ready_at is None or self.assigned_at is None:
            return None
        return max(self.ready_at, self.assigned_at)


@dataclass(slots=True)
class SpikesSoFar:
    """The spikes that have begun, and what came after each."""

    cell: LiveCell
    limits: PolicyLimits
    _spikes: list[_Spike] = field(default_factory=list)
    _pods: dict[str, _Pod] = field(default_factory=dict)
    _replicas: int | None = None

    def start(self, stream_started_at: int) -> None:
        """Take the instant of the stream's start (unix ns)."""
        self._spikes = [
            _Spike(
                stream_started_at + round(spike.start_seconds * NANOSECONDS),
                stream_started_at + round(spike.end_seconds * NANOSECONDS),
            )
            for spike in self.cell.spikes
        ]

    def take_pods(self, record: Record) -> None:
        """Update with what a record says of pods."""
        if isinstance(record, ReplicaSample):
            self._replicas = record.spec
        elif isinstance(record, PodSeen):
            pod = self._pods.setdefault(record.pod, _Pod())
            pod.created_at, pod.ready_at = record.created_at, record.ready_at
            self._see(pod)
        elif isinstance(record, PartitionsAssigned) and record.owned:
            pod = self._pods.setdefault(record.source, _Pod())
            pod.assigned_at = pod.assigned_at or record.at
            self._see(pod)

    def take_lag(self, at: int, total: int | None) -> None:
        """Update with the total lag at ``at``; None: it is unknown."""
        if total is None:
            return
        held = self.limits.scales_above_records(self._replicas or 0)
        asks_above = None if held is None else held * (1 + self.limits.flags.tolerance_in_force)
        drained = self.limits.lag_threshold_records
        for spike in self._spikes:
            if asks_above is not None and at >= spike.started_at and total > asks_above:
                spike.needs_pods = True
            is_first = at >= spike.ended_at and spike.drained_at is None
            if is_first and drained is not None and total <= drained:
                spike.drained_at = at

    def reaction(self, now: int) -> tuple[float, bool] | None:
        """Return the longest reaction in seconds, and whether it has ended; None: none is due."""
        waits = [
            ((spike.reacted_at or now) - spike.started_at, spike.reacted_at is not None)
            for spike in self._spikes
            if spike.needs_pods and now >= spike.started_at
        ]
        return _longest(waits)

    def drain(self, now: int) -> tuple[float, bool] | None:
        """Return the drain after the last spike in seconds, and whether it has ended."""
        if not self._spikes or self.limits.lag_threshold_records is None:
            return None
        last = self._spikes[-1]
        if now < last.ended_at:
            return None
        return _longest([((last.drained_at or now) - last.ended_at, last.drained_at is not None)])

    def _see(self, pod: _Pod) -> None:
        if pod.created_at is None or pod.worked_from is None:
            return
        for spike in self._spikes:
            if pod.created_at >= spike.started_at and spike.reacted_at is None:
                spike.reacted_at = pod.worked_from


def _longest(waits: list[tuple[int, bool]]) -> tuple[float, bool] | None:
    if not waits:
        return None
    nanoseconds, has_ended = max(waits)
    return nanoseconds / NANOSECONDS, has_ended
