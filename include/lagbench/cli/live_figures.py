"""Compute the current figures of a run from its telemetry records."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from lagbench.core.telemetry import (
    ConsumerProgress,
    LagSample,
    LoadStep,
    PodStopped,
    ProducerProgress,
    ReadGap,
    Record,
    ReplicaSample,
    StreamFinished,
)

FRESH_NS = 3_000_000_000
"""A pod that has not reported for 3 s (it reports each second) no longer counts."""


@dataclass(slots=True)
class LiveFigures:
    """The newest figures; None if not reported (missing is not zero)."""

    total_lag: int | None = None
    replicas: ReplicaSample | None = None
    offered_per_second: float | None = None
    generated: int | None = None
    spike: str = ""
    gap: str = ""
    newest_at: int = 0
    lag_history: deque[int] = field(default_factory=lambda: deque(maxlen=60))
    _pods: dict[str, ConsumerProgress] = field(default_factory=dict)
    _last_progress: ProducerProgress | None = None

    @property
    def consumed_per_second(self) -> float | None:
        """Sum over the pods that reported within the last 3 s; None if none did."""
        fresh = [p for p in self._pods.values() if self.newest_at - p.at <= FRESH_NS]
        return sum(pod.consume_rate for pod in fresh) if fresh else None

    @property
    def pods_reporting(self) -> int:
        """Pods that reported within the last 3 s."""
        return sum(self.newest_at - pod.at <= FRESH_NS for pod in self._pods.values())

    def take(self, record: Record) -> None:
        """Update the figures with one record."""
        self.newest_at = max(self.newest_at, record.at)
        match record:
            case LagSample():
                self._take_lag(record)
            case ReplicaSample():
                self.replicas = record
            case ProducerProgress():
                self._take_progress(record)
            case ConsumerProgress():
                self._pods[record.source] = record
            case PodStopped():
                self._pods.pop(record.source, None)
            case StreamFinished():
                self.offered_per_second = 0.0  # reported, not missing: the stream has ended
            case LoadStep(step="spike_start"):
                self.spike = "spike"
            case LoadStep(step="spike_end"):
                self.spike = "after the spike"
            case ReadGap():
                self.gap = f"{record.what}: {record.reason}"
            case _:
                return

    def _take_lag(self, sample: LagSample) -> None:
        rows = sample.partitions
        known = [end - committed for _, end, committed in rows if committed is not None]
        if not known:
            self.total_lag = None
            return
        self.total_lag, self.gap = sum(known), ""
        self.lag_history.append(self.total_lag)

    def _take_progress(self, progress: ProducerProgress) -> None:
        last, self._last_progress = self._last_progress, progress
        self.generated = progress.sent
        if last is not None and progress.at > last.at:
            seconds = (progress.at - last.at) / 1e9
            self.offered_per_second = (progress.sent - last.sent) / seconds
