"""Report the pod: telemetry records, and the counts behind its metrics endpoint."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol, TypedDict

from lagbench.core.telemetry import records as telemetry
from lagbench.programs.consumer.settings import ConsumerOptions
from lagbench.programs.steady_clock import ClockWatch, SteadyClock

REBALANCE_BUCKETS_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class _Stamp(TypedDict):
    """The fields of every record."""

    at: int
    source: str


class TelemetrySink(Protocol):
    """Takes records without blocking or failing."""

    def send(self, record: telemetry.Record) -> None:
        """Queue one record."""


class PodCounts:
    """The numbers that the metrics endpoint shows; written by one thread, read by another."""

    def __init__(self) -> None:
        """Start at zero."""
        self.consume_rate = 0.0
        self.inflight = 0
        self.assigned_partitions = 0
        self.rebalance_seconds: list[float] = []  # a pod's life has few
        self.rebalances_total = 0
        self.is_ready = False


class PodReports:
    """Sends the pod's telemetry records and keeps its figures."""

    def __init__(
        self,
        options: ConsumerOptions,
        sink: TelemetrySink,
        pod_counts: PodCounts,
        clock: SteadyClock,
    ) -> None:
        """Report as ``options.pod_name``, with the instants of ``clock``, as the ledger does."""
        self._options = options
        self._sink = sink
        self._pod_counts = pod_counts
        self._clock = clock
        self._clock_watch = ClockWatch(options.pod_name, sink.send)
        self._progress_at = time.monotonic()
        self._progress_processed = 0
        self._has_first_record = False

    def pod_started(self) -> None:
        """Report the process's start."""
        record = telemetry.PodStarted(
            **self._stamp(),
            process_started_at=process_started_at(),
            balancer=self._options.balancer,
            concurrency=self._options.concurrency,
            process_ms=self._options.mean_process_ms,
            cpu_ms=self._options.cpu_ms,
            instance_id=self._options.instance_id,
            start_delay_seconds=self._options.start_delay_seconds,
            start_cpu_seconds=time.process_time(),
        )
        self._sink.send(record)

    def group_joined(self, member_id: str) -> None:
        """Report membership."""
        self._sink.send(telemetry.GroupJoined(**self._stamp(), member_id=member_id))

    def assigned(
        self, member_id: str, partitions: list[int], owned: list[int], *, seconds: float | None
    ) -> None:
        """Report partitions gained; ``seconds`` is the rebalance's duration at its end."""
        record = telemetry.PartitionsAssigned(
            **self._stamp(),
            member_id=member_id,
            partitions=partitions,
            owned=owned,
            is_incremental=self._options.is_incremental,
            rebalance=self._pod_counts.rebalances_total,
        )
        self._sink.send(record)
        self._rebalanced(owned, seconds)

    def revoked(
        self,
        member_id: str,
        partitions: list[int],
        owned: list[int],
        *,
        is_lost: bool,
        in_flight: int,
        finish_seconds: float,
        seconds: float | None,
    ) -> None:
        """Report partitions given up or lost."""
        record = telemetry.PartitionsRevoked(
            **self._stamp(),
            member_id=member_id,
            partitions=partitions,
            owned=owned,
            is_lost=is_lost,
            in_flight=in_flight,
            finish_seconds=finish_seconds,
            rebalance=self._pod_counts.rebalances_total,
        )
        self._sink.send(record)
        self._rebalanced(owned, seconds)

    def rebalance_began(self) -> None:
        """Count a rebalance; its records carry the number."""
        self._pod_counts.rebalances_total += 1

    def first_record_done(self, partition: int, offset: int) -> None:
        """Report the first acknowledged record; later calls do nothing."""
        if not self._has_first_record:
            self._has_first_record = True
            stamp = self._stamp()
            self._sink.send(telemetry.FirstRecordDone(**stamp, partition=partition, offset=offset))

    def committed(
        self,
        member_id: str,
        offsets: Mapping[int, int],
        cause: Literal["interval", "revoke", "shutdown", "auto"],
    ) -> None:
        """Report a commit."""
        named = {str(partition): offset for partition, offset in offsets.items()}
        self._sink.send(
            telemetry.OffsetsCommitted(
                **self._stamp(), member_id=member_id, offsets=named, cause=cause
            )
        )

    def commit_failed(self, member_id: str, offsets: Mapping[int, int], reason: str) -> None:
        """Report a rejected commit."""
        named = {str(partition): offset for partition, offset in offsets.items()}
        self._sink.send(
            telemetry.CommitFailed(
                **self._stamp(), member_id=member_id, offsets=named, reason=reason
            )
        )

    def sigterm_received(self, queued: int, in_flight: int) -> None:
        """Report the request to end."""
        stamp = self._stamp()
        self._sink.send(telemetry.SigtermReceived(**stamp, queued=queued, in_flight=in_flight))

    def pod_stopped(
        self, reason: str, *, is_graceful: bool, abandoned: int, processed_total: int
    ) -> None:
        """Report the end."""
        self._clock_watch.look()
        record = telemetry.PodStopped(
            **self._stamp(),
            reason=reason,
            is_graceful=is_graceful,
            abandoned=abandoned,
            processed_total=processed_total,
        )
        self._sink.send(record)

    def progress_if_due(self, processed_total: int, queued: int, in_flight: int) -> None:
        """Report once a second."""
        now = time.monotonic()
        elapsed_seconds = now - self._progress_at
        if elapsed_seconds < 1:
            return
        self._clock_watch.look()
        pod_counts = self._pod_counts
        pod_counts.consume_rate = (processed_total - self._progress_processed) / elapsed_seconds
        pod_counts.inflight = in_flight
        self._progress_at, self._progress_processed = now, processed_total
        record = telemetry.ConsumerProgress(
            **self._stamp(),
            processed_total=processed_total,
            consume_rate=pod_counts.consume_rate,
            inflight=in_flight,
            queued=queued,
            assigned_partitions=pod_counts.assigned_partitions,
            cpu_seconds=time.process_time(),
        )
        self._sink.send(record)

    def _rebalanced(self, owned: list[int], seconds: float | None) -> None:
        self._pod_counts.assigned_partitions = len(owned)
        if seconds is not None:
            self._pod_counts.rebalance_seconds.append(seconds)

    def _stamp(self) -> _Stamp:
        return {"at": self._clock.now_ns(), "source": self._options.pod_name}


def process_started_at() -> int:
    """Return when the operating system started this process, in unix ns (10 ms steps)."""
    return time.time_ns() - process_age_ns()


def process_age_ns() -> int:
    """Return how long ago the operating system started this process (10 ms steps)."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    started_ns = int(fields[19]) * 10_000_000  # starttime: 1/100 s since boot (proc_pid_stat(5))
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started_ns
