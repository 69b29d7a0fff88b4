"""Telemetry of the recorder: its samples of broker, cluster and bench."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from lagbench.core.telemetry.records_of_programs import Record

What = Literal[
    "lag", "replicas", "hpa", "scaled_object", "group", "pods", "usage", "broker", "events"
]
"""The readings of the recorder, each taken separately."""


class LagSample(Record, tag="lag_sample"):
    """End and committed offset per partition: rows of [partition, end, committed or None]."""

    partitions: list[tuple[int, int, int | None]]

    @property
    def uncommitted(self) -> int:
        """Return the total lag on a run's own topic, of which each partition begins at 0."""
        return sum(max(end - (committed or 0), 0) for _, end, committed in self.partitions)


class ReplicaSample(Record, tag="replica_sample"):
    """Replicas of the consumers' workload: desired (spec), existing, ready."""

    spec: int
    current: int
    ready: int
    available: int | None = None  # absent from older runs


class ReplicasChanged(Record, tag="replicas_changed"):
    """The desired replicas of the workload changed; ``at`` is when the watch showed it."""

    target: str
    replicas_before: int
    replicas_after: int
    manager: str  # their writer (metadata.managedFields); empty: unknown


class ReplicasWatched(Record, tag="replicas_watched"):
    """A watch of the workload ended normally: it had shown every change since ``since_at``.

    Absent from older runs.
    """

    since_at: int


class HpaSample(Record, tag="hpa_sample"):
    """The HPA's status as stored, and the targets of its spec in the form of ``metrics``."""

    name: str
    desired: int | None
    current: int | None
    metrics: list[str]
    conditions: list[str]
    targets: list[str] = msgspec.field(default_factory=list)  # absent from older runs
    totals: dict[str, float] = msgspec.field(default_factory=dict)  # by metric, over all pods
    min_replicas: int | None = None  # of the spec, like the next; absent from older runs
    max_replicas: int | None = None
    last_scaled_at: int | None = None  # whole second of the controller's clock


class ScaledObjectSample(Record, tag="scaled_object_sample"):
    """The conditions of a ScaledObject, in the form of those of the HPA; absent from older runs.

    Then the lowest targets in records of lag, for each replica and for the group (``metricType:
    Value``), and the tolerance of its HPA. A target is None if no trigger has it, and with a
    formula. All three are None if they cannot be read, and in older runs.
    """

    name: str
    conditions: list[str]
    scales_at_records: float | None = None
    group_target_records: float | None = None
    tolerance: float | None = None


class ScalingObject(Record, tag="scaling_object"):
    """A ScaledObject or HPA of the workload as stored: sent at first, and whenever it changed.

    ``spec`` None: it was deleted. ``annotations`` without kubectl's copy. Absent from older runs.
    """

    object_kind: str
    name: str
    spec: dict[str, Any] | None
    annotations: dict[str, str]


class KubeEvent(Record, tag="kube_event"):
    """A Kubernetes event on a scaling object or on a consumer; its instants are whole seconds."""

    object_kind: str
    object_name: str
    type: str  # Normal or Warning
    reason: str
    message: str
    count: int
    first_at: int | None
    last_at: int | None


class ClockOffset(Record, tag="clock_offset"):
    """A clock is ahead of the recorder's by ``low_ns`` to ``high_ns``, since ``since_at``.

    A clock that contradicts its known bound starts a new period with its own ``since_at``.
    """

    clock: str  # the API server, or a node by name
    pods: list[str]  # with this clock
    low_ns: int
    high_ns: int
    answers: int
    since_at: int


class GroupSample(Record, tag="group_sample"):
    """The consumer group as the broker describes it."""

    state: str
    members: int
    members_without_partitions: int


class GroupMember(msgspec.Struct):
    """A member of the consumer group as its coordinator describes it."""

    member_id: str
    client_id: str  # a pod of the run has its own name here
    host: str
    partitions: list[int]


class GroupMembers(Record, tag="group_members"):
    """The group's members: sent whenever they or an assignment changed, and every ten seconds.

    Absent from runs of format 1.
    """

    members: list[GroupMember]


class PodSeen(Record, tag="pod_seen"):
    """A consumer pod's timeline as Kubernetes reports it; repeated whenever something changed.

    ``precision_ns`` is the precision of the instants: 1 s on a real cluster (metav1.Time).
    ``gone_at`` is when the object was removed; if a node evicts its pod, the object stays, phase
    Failed.
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
    phase: str = ""  # of the pod; absent from older runs, like the next two
    finished_at: int | None = None  # its last container's end, once the phase is final
    node: str = ""  # the pod has its clock, once it is scheduled
    address: str = ""  # its IP; absent from older runs
    containers_ended: int | None = None  # how often its container has ended; absent likewise


class PodsListed(Record, tag="pods_listed"):
    """The consumer pods that a recorder found when it began; absent from older runs.

    A pod that an earlier recorder reported and that is not among them was removed in between.
    """

    pods: list[str]


class UsageSample(Record, tag="usage_sample"):
    """CPU and memory of one part of the bench, for the observer cost."""

    component: str
    cpu_seconds: float
    memory_bytes: int


class ReadGap(Record, tag="read_gap"):
    """A reading failed: ``what`` was not read at this instant."""

    what: What
    reason: str
