"""Telemetry of the producer: the stream it sends and how late it is."""

from __future__ import annotations

from typing import Literal

from lagbench.core.telemetry.record import Record

FAILED_RANGES_REPORTED = 10_000
"""A telemetry record holds up to this many seq ranges (240 kB of JSON); beyond that, none."""


class StreamStarted(Record, tag="stream_started"):
    """Planned offset 0 of the stream lies at ``stream_started_at``."""

    stream_started_at: int
    seed: int
    profile: str
    planned_total: int
    planned_seconds: float  # of the planned window, without the tail
    partitions: int
    tail_rate_per_second: float = 0.0  # absent from runs of format 1, like the next
    tail_most_seconds: float = 0.0  # how long the base load may continue after the planned window


class LoadStep(Record, tag="load_step"):
    """The offered rate changed (events per second); ``at`` is the planned instant."""

    step: Literal["spike_start", "spike_end", "change"]
    rate_before: float
    rate_after: float


class ProducerProgress(Record, tag="producer_progress"):
    """Running totals of the producer, once a second; lateness is of this second's events.

    Kafka has not yet taken the messages in the client (``sent`` - ``acked`` - ``failed``).
    """

    planned: int
    sent: int
    acked: int
    failed: int
    lateness_p50_ms: float | None
    lateness_p99_ms: float | None
    lateness_max_ms: float | None


class StreamFinished(Record, tag="stream_finished"):
    """The producer has flushed; lateness is of the whole stream, tail included.

    ``planned``, ``sent``, ``acked``, ``failed`` and ``unknown`` count the tail too; ``tail_sent``
    belong to it. ``stream_sha256`` is the digest of the planned window alone, the same
    whenever the tail ends. ``failed_seqs`` are ranges [first, last] of the failed deliveries, by
    identity; None: not recorded (format 1, or more than ``FAILED_RANGES_REPORTED``).
    """

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
    tail_sent: int = 0  # absent from runs of format 1, like the next ones
    tail_seconds: float = 0.0
    failed_seqs: list[tuple[int, int]] | None = None
    unknown_seqs: list[tuple[int, int]] | None = None
