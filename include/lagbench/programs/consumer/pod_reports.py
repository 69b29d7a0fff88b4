"""Report the pod: telemetry records, and the counts behind its metrics endpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lagbench.core.telemetry import records_of_programs as record
from lagbench.programs.clock_watch import ClockWatch
from lagbench.programs.consumer.consumer_settings import ConsumerOptions
from pod_program.steady_clock import SteadyClock, process_started_at

if TYPE_CHECKING:
    from prometheus_client import Metric

REBALANCE_BUCKETS_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(slots=True)
class PodCounts:
    """The numbers that the metrics endpoint shows; written by one thread, read by another."""

    consume_rate: float = 0.0
    inflight: int = 0
    assigned_partitions: int = 0
    rebalance_seconds: list[float] = field(default_factory=list)  # a pod's life has few
    rebalances_total: int = 0
    is_ready: bool = False


class PodReports:
    """Sends the pod's telemetry records and keeps its figures."""

    def __init__(
        self,
        options: ConsumerOptions,
        send: Callable[[record.Record], None],
        pod_counts: PodCounts,
        clock: SteadyClock,
    ) -> None:
        """Report as ``options.pod_name``, with the instants of ``clock``, as the ledger does."""
        self._options, self._send, self._clock = options, send, clock
        self.pod_counts = pod_counts
        self._clock_watch = ClockWatch(options.pod_name, send)
        self._progress_at = time.monotonic()
        self._progress_processed = 0
        self._has_first_record = False

    def send(self, kind: type[record.Record], **fields: Any) -> None:
        """Send a record of this pod and instant."""
        self._send(kind(at=self._clock.now_ns(), source=self._options.pod_name, **fields))

    def pod_started(self) -> None:
        """Report the process's start."""
        options = self._options
        self.send(
            record.PodStarted,
            process_started_at=process_started_at(),
            balancer=options.balancer,
            concurrency=options.concurrency,
            process_ms=options.mean_process_ms,
            cpu_ms=options.cpu_ms,
            work=options.work,
            instance_id=options.instance_id,
            start_delay_seconds=options.start_delay_seconds,
            start_cpu_seconds=time.process_time(),
        )

    def first_record_done(self, partition: int, offset: int) -> None:
        """Report the first acknowledged record; later calls do nothing."""
        if not self._has_first_record:
            self._has_first_record = True
            self.send(record.FirstRecordDone, partition=partition, offset=offset)

    def committed(
        self,
        member_id: str,
        offsets: Mapping[int, int],
        cause: Literal["interval", "revoke", "shutdown", "auto"],
    ) -> None:
        """Report a commit."""
        named = {str(partition): offset for partition, offset in offsets.items()}
        self.send(record.OffsetsCommitted, member_id=member_id, offsets=named, cause=cause)

    def commit_failed(self, member_id: str, offsets: Mapping[int, int], reason: str) -> None:
        """Report a rejected commit."""
        named = {str(partition): offset for partition, offset in offsets.items()}
        self.send(record.CommitFailed, member_id=member_id, offsets=named, reason=reason)

    def pod_stopped(
        self, reason: str, *, is_graceful: bool, abandoned: int, processed_total: int
    ) -> None:
        """Report the end."""
        self._clock_watch.look()
        self.send(
            record.PodStopped,
            reason=reason,
            is_graceful=is_graceful,
            abandoned=abandoned,
            processed_total=processed_total,
        )

    def progress_if_due(self, processed_total: int, queued: int, in_flight: int) -> None:
        """Report once a second."""
        now = time.monotonic()
        elapsed_seconds = now - self._progress_at
        if elapsed_seconds < 1:
            return
        self._clock_watch.look()
        counts = self.pod_counts
        counts.consume_rate = (processed_total - self._progress_processed) / elapsed_seconds
        counts.inflight = in_flight
        self._progress_at, self._progress_processed = now, processed_total
        self.send(
            record.ConsumerProgress,
            processed_total=processed_total,
            consume_rate=counts.consume_rate,
            inflight=in_flight,
            queued=queued,
            assigned_partitions=counts.assigned_partitions,
            cpu_seconds=time.process_time(),
        )


class Exposition:
    """The figures in Prometheus' text format.

    The client library is imported at the first scrape: it costs 50 ms, which a pod's start
    would otherwise pay.
    """

    def __init__(self, pod_counts: PodCounts) -> None:
        """Show ``figures`` as they are at each scrape."""
        self._pod_counts = pod_counts

    def __call__(self) -> tuple[int, bytes]:
        """Answer a scrape."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return 200, generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the lab's five metrics under exactly its names."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        pod_counts = self._pod_counts
        rate, inflight = pod_counts.consume_rate, pod_counts.inflight
        yield GaugeMetricFamily("consume_rate", "Records processed per second", value=rate)
        yield GaugeMetricFamily("inflight", "Writes in progress", value=inflight)
        yield GaugeMetricFamily(
            "assigned_partitions", "Partitions held", value=pod_counts.assigned_partitions
        )
        yield CounterMetricFamily(
            "rebalances", "Rebalances seen", value=pod_counts.rebalances_total
        )
        seconds = list(pod_counts.rebalance_seconds)
        buckets = [
            (str(limit), float(sum(value <= limit for value in seconds)))
            for limit in REBALANCE_BUCKETS_SECONDS
        ]
        yield HistogramMetricFamily(
            "rebalance_duration_seconds",
            "From the first partition given up until the new assignment is in force",
            buckets=[*buckets, ("+Inf", float(len(seconds)))],
            sum_value=sum(seconds),
        )
