"""Telemetry of the recorder: what it samples of broker, cluster and bench."""

from __future__ import annotations

from typing import Literal

import msgspec

from lagbench.core.telemetry_record import Record


class LagSample(Record, tag="lag_sample"):
    """End and committed offset per partition: rows of [partition, end, committed or None]."""

    partitions: list[tuple[int, int, int | None]]


class ReplicaSample(Record, tag="replica_sample"):
    """Replicas of the consumer Deployment: wanted (spec), existing, ready."""

    spec: int
    current: int
    ready: int


class HpaSample(Record, tag="hpa_sample"):
    """The HPA's status as stored, and the targets of its spec in the form of ``metrics``."""

    name: str
    desired: int | None
    current: int | None
    metrics: list[str]
    conditions: list[str]
    targets: list[str] = msgspec.field(default_factory=list)  # absent from older runs


class GroupSample(Record, tag="group_sample"):
    """The consumer group as the broker describes it."""

    state: str
    members: int
    members_without_partitions: int


class PodSeen(Record, tag="pod_seen"):
    """A consumer pod's life as Kubernetes tells it; repeated whenever something changed.

    ``precision_ns`` is how exact the instants are: 1 s on a real cluster (metav1.Time).
    """

    pod: str
    created_at: int
    started_at: int | None
    ready_at: int | None
    deleted_at: int | None
    gone_at: int | None
    exit_code: int | None
    exit_reason: str
    precision_ns: int


class UsageSample(Record, tag="usage_sample"):
    """CPU and memory of one part of the bench, for the observer cost."""

    component: str
    cpu_seconds: float
    memory_bytes: int


class ReadGap(Record, tag="read_gap"):
    """A reading failed: ``what`` was not seen at this instant."""

    what: Literal["lag", "replicas", "hpa", "group", "pods", "usage", "broker"]
    reason: str
