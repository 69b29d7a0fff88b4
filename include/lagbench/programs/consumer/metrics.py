"""The pod's figures for Prometheus, under exactly the lab's names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lagbench.programs.consumer.reports import REBALANCE_BUCKETS_SECONDS, PodCounts

if TYPE_CHECKING:
    from prometheus_client import Metric


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
