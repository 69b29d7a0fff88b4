"""Telemetry records: what each part of a run reports, as a typed union told apart by ``kind``.

Every record has ``at`` (unix nanoseconds at the source's clock) and ``source`` (pod or component).
They travel as JSON, one per Kafka message. A reading that failed is a ``ReadGap``, never a zero.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Record(msgspec.Struct, kw_only=True, tag_field="kind", tag=True):
    """Base of every record."""

    at: int
    source: str


# --- phases, from the Dag's tasks ----------------------------------------------------------------


class Phase(Record, tag="phase"):
    """A phase of the run began, ended or failed."""

    name: str
    state: Literal["started", "finished", "failed"]
    detail: str = ""


# --- producer ------------------------------------------------------------------------------------


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


# --- consumer pods -------------------------------------------------------------------------------


class PodStarted(Record, tag="pod_started"):
    """The consumer's process runs (``process_started_at``: from the operating system)."""

    process_started_at: int
    balancer: str
    concurrency: int
    process_ms: float
    instance_id: str | None


class GroupJoined(Record, tag="group_joined"):
    """The consumer became a member of the group."""

    member_id: str


class PartitionsAssigned(Record, tag="partitions_assigned"):
    """Partitions were given to the pod; ``owned`` is everything it holds afterwards."""

    member_id: str
    partitions: list[int]
    owned: list[int]
    is_incremental: bool
    rebalance: int  # counts the pod's own rebalances from 1


class PartitionsRevoked(Record, tag="partitions_revoked"):
    """Partitions were taken away; lost means that the group had already given them to others."""

    member_id: str
    partitions: list[int]
    owned: list[int]
    is_lost: bool
    in_flight: int  # records that were begun or queued when the revoke came
    finish_seconds: float  # time to finish and commit them
    rebalance: int


class FirstRecordDone(Record, tag="first_record_done"):
    """The pod's first record is processed and acknowledged in the ledger."""

    partition: int
    offset: int


class OffsetsCommitted(Record, tag="offsets_committed"):
    """A commit succeeded: next offset to read, by partition (key: decimal string)."""

    member_id: str
    offsets: dict[str, int]
    cause: Literal["interval", "revoke", "shutdown", "auto"]


class CommitFailed(Record, tag="commit_failed"):
    """A commit was refused."""

    member_id: str
    offsets: dict[str, int]
    reason: str


class SigtermReceived(Record, tag="sigterm_received"):
    """The pod was asked to end."""

    queued: int
    in_flight: int


class PodStopped(Record, tag="pod_stopped"):
    """The consumer ended by itself; absent for a pod that was killed."""

    reason: str
    is_drained: bool
    abandoned: int  # records begun or queued but not finished
    processed_total: int


class ConsumerProgress(Record, tag="consumer_progress"):
    """Running figures of a pod, once a second."""

    processed_total: int
    consume_rate: float
    inflight: int
    queued: int
    assigned_partitions: int
    cpu_seconds: float


# --- recorder ------------------------------------------------------------------------------------


class LagSample(Record, tag="lag_sample"):
    """End and committed offset per partition: rows of [partition, end, committed or None]."""

    partitions: list[tuple[int, int, int | None]]


class ReplicaSample(Record, tag="replica_sample"):
    """Replicas of the consumer Deployment: wanted (spec), existing, ready."""

    spec: int
    current: int
    ready: int


class HpaSample(Record, tag="hpa_sample"):
    """The HPA's status as stored."""

    name: str
    desired: int | None
    current: int | None
    metrics: list[str]
    conditions: list[str]


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


# --- autoscaler ----------------------------------------------------------------------------------


class KedaPoll(Record, tag="keda_poll"):
    """KEDA's scale loop read its triggers."""

    scaled_object: str
    metrics: dict[str, float]
    is_active: bool
    error: str = ""


class HpaSync(Record, tag="hpa_sync"):
    """One sync of the HPA controller: what it read, proposed and decided."""

    hpa: str
    spec_replicas: int
    status_replicas: int
    metrics: dict[str, float | None]
    proposal: int | None
    desired: int
    able_to_scale: str
    scaling_limited: str
    scaling_active: str
    error: str = ""


class Scaled(Record, tag="scaled"):
    """The target's replicas were changed."""

    target: str
    replicas_before: int
    replicas_after: int
    by: Literal["keda", "hpa", "user"]
    reason: str


TelemetryRecord = (
    Phase
    | StreamStarted
    | LoadStep
    | ProducerProgress
    | StreamFinished
    | PodStarted
    | GroupJoined
    | PartitionsAssigned
    | PartitionsRevoked
    | FirstRecordDone
    | OffsetsCommitted
    | CommitFailed
    | SigtermReceived
    | PodStopped
    | ConsumerProgress
    | LagSample
    | ReplicaSample
    | HpaSample
    | GroupSample
    | PodSeen
    | UsageSample
    | ReadGap
    | KedaPoll
    | HpaSync
    | Scaled
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[TelemetryRecord] = msgspec.json.Decoder(TelemetryRecord)


def encode_record(record: Record) -> bytes:
    """Return the record as JSON."""
    return _encoder.encode(record)


def decode_record(data: bytes | str) -> TelemetryRecord:
    """Return the record in ``data``.

    :raises msgspec.ValidationError: it is no known record.
    """
    return _decoder.decode(data)
