"""The base of every telemetry record."""

from __future__ import annotations

from typing import Literal

import msgspec


class Record(msgspec.Struct, kw_only=True, tag_field="kind", tag=True):
    """Base of every record: unix nanoseconds at the source's clock, and the source's name."""

    at: int
    source: str


class ClockStepped(Record, tag="clock_stepped"):
    """The source's wall clock moved against its monotonic one by more than a tenth of a second.

    ``step_seconds`` is above 0 for a step forward. Absent from runs of format 1.
    """

    step_seconds: float


class Phase(Record, tag="phase"):
    """A phase of the run began, ended or failed."""

    name: str
    state: Literal["started", "finished", "failed"]
    detail: str = ""


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
    aborted: str = ""  # the limit of ``abort`` that ended the stream; absent from older runs


class PodStarted(Record, tag="pod_started"):
    """The consumer's process is running (``process_started_at``: from the operating system)."""

    process_started_at: int
    balancer: str
    concurrency: int
    process_ms: float  # the mean of a distribution
    instance_id: str | None
    start_delay_seconds: float | None = None  # the intended wait; absent from runs of format 1
    start_cpu_seconds: float | None = None  # spent so far, mostly on imports; absent likewise
    cpu_ms: float = 0.0
    work: str = "scheduled"  # of all runs before this field


class GroupJoined(Record, tag="group_joined"):
    """The consumer became a member of the group."""

    member_id: str


class PartitionsAssigned(Record, tag="partitions_assigned"):
    """Partitions were assigned to the pod; ``owned`` is everything it owns afterwards."""

    member_id: str
    partitions: list[int]
    owned: list[int]
    is_incremental: bool
    rebalance: int  # counts the pod's own rebalances from 1


class PartitionsRevoked(Record, tag="partitions_revoked"):
    """Partitions were revoked; lost means that the group had already assigned them to others."""

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
    """A commit was rejected."""

    member_id: str
    offsets: dict[str, int]
    reason: str


class SigtermReceived(Record, tag="sigterm_received"):
    """The pod was asked to stop; None: the pod does not know (a worker of Spark)."""

    queued: int | None
    in_flight: int | None


class PodStopped(Record, tag="pod_stopped"):
    """The consumer ended by itself; absent for a pod that was killed.

    ``abandoned`` are records begun or queued but not finished; None: the pod does not know.
    ``is_graceful``: it finished and committed its work.
    """

    reason: str
    abandoned: int | None
    processed_total: int | None
    is_graceful: bool = False


class ConsumerProgress(Record, tag="consumer_progress"):
    """Running figures of a pod, once a second."""

    processed_total: int
    consume_rate: float
    inflight: int
    queued: int
    assigned_partitions: int
    cpu_seconds: float


class SparkDriverStarted(Record, tag="spark_driver_started"):
    """The driver is about to start its query.

    Both are next offsets by partition (key: decimal string). ``checkpointed``: where the query will
    continue; None: the checkpoint is new. ``published``: what the group had before; partitions
    without an offset are left out.
    """

    spark_version: str
    process_started_at: int
    checkpointed: dict[str, int] | None
    published: dict[str, int]


class SparkBatch(Record, tag="spark_batch"):
    """A micro-batch is in the checkpoint; ``source`` is the driver's pod."""

    batch: int
    started_at: int
    rows: int
    batch_seconds: float
    trigger_seconds: float
    input_rows_per_second: float
    processed_rows_per_second: float
    executors: int


class SparkTask(Record, tag="spark_task"):
    """A task ended, its messages are in the ledger; ``source`` is the worker's pod."""

    batch: int
    partition: int
    attempt: int  # 0: the first one
    started_at: int
    rows: int
    first_offset: int
    last_offset: int


class OffsetsPublished(Record, tag="offsets_published"):
    """The group has the end offsets of a batch: next offset to read, by partition.

    ``delay_seconds``: since the batch's end; None: nothing new, published again while idle.
    """

    batch: int | None
    offsets: dict[str, int]
    delay_seconds: float | None


class KedaPoll(Record, tag="keda_poll"):
    """KEDA's scale loop read its triggers."""

    scaled_object: str
    metrics: dict[str, float]
    is_active: bool
    error: str = ""


class HpaSync(Record, tag="hpa_sync"):
    """One sync of the HPA controller: its readings, proposal and decision."""

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


class ActionStarted(Record, tag="action_started"):
    """An action begins; ``at`` is before its first effect."""

    number: int  # its place in the scenario's list, from 0
    action: str  # its kind
    targets: list[str]  # names of pods, of Deployments, of a policy
    planned_at: int | None  # None: it waited for a state


class ActionEnded(Record, tag="action_ended"):
    """An action has ended: its effect is undone, or complete; ``at`` is after its last effect.

    ``error`` is why it was not played as planned; empty: it was.
    """

    number: int
    action: str
    error: str = ""
    came: list[str] = msgspec.field(default_factory=list)  # pods that it put in place of others
    detail: str = ""  # such as the difference of two policies
