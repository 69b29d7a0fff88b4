"""Telemetry of a consumer pod: membership, partitions, commits, its end."""

from __future__ import annotations

from typing import Literal

from lagbench.core.telemetry.record import Record


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
