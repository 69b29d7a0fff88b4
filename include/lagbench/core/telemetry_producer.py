"""Telemetry of the producer: the stream it sends and how late it is."""

from __future__ import annotations

from typing import Literal

from lagbench.core.telemetry_record import Record


class StreamStarted(Record, tag="stream_started"):
    """Planned offset 0 of the stream lies at ``stream_started_at``."""

    stream_started_at: int
    seed: int
    profile: str
    planned_total: int
    planned_seconds: float
    partitions: int


class LoadStep(Record, tag="load_step"):
    """The offered rate changed (events per second); ``at`` is the planned instant."""

    step: Literal["spike_start", "spike_end", "change"]
    rate_before: float
    rate_after: float


class ProducerProgress(Record, tag="producer_progress"):
    """Running totals of the producer, once a second; lateness is of this second's events."""

    planned: int
    sent: int
    acked: int
    failed: int
    lateness_p50_ms: float | None
    lateness_p99_ms: float | None
    lateness_max_ms: float | None


class StreamFinished(Record, tag="stream_finished"):
    """The producer has flushed; lateness is of the whole stream."""

    planned: int
    sent: int
    acked: int
    failed: int
    unknown: int
    lateness_p50_ms: float
    lateness_p99_ms: float
    lateness_max_ms: float
    fell_behind: bool
    reason: str
    stream_sha256: str
