"""The scaler's own figures for Prometheus."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import Metric

# The aim is a p99 of 5 ms; what waits for a first sample takes up to 2.5 s.
_BUCKETS_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)


class ScalerMetrics:
    """Counts what is served and sampled; what is only known at a scrape is collected then."""

    def __init__(self) -> None:
        """Begin at zero."""
        disable_created_metrics()  # type: ignore[no-untyped-call]  # spares a second series of each
        self.registry = CollectorRegistry(auto_describe=False)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"lagbench_scaler_{name}", text, labels, registry=self.registry)

        self.requests = counter(
            "requests", "Calls answered, by method and gRPC status code", "method", "code"
        )
        self.request_seconds = Histogram(
            "lagbench_scaler_request_seconds",
            "From a call's arrival to its answer; streams are not counted",
            ["method"],
            buckets=_BUCKETS_SECONDS,
            registry=self.registry,
        )
        self.samples = counter(
            "samples", "Samples of one group and topic, by result", "cluster", "result"
        )
        self.decision_changes = counter(
            "decision_changes", "Times that an object became active or inactive", "to"
        )
        self.state_writes = counter("state_writes", "Attempts to write the state file", "result")

    def forget_cluster(self, name: str) -> None:
        """Drop the series of a cluster that is no longer sampled: callers name clusters."""
        for result in ("good", "failed"):
            with contextlib.suppress(KeyError):
                self.samples.remove(name, result)

    def collect_from(self, collect: Callable[[], Iterable[Metric]]) -> None:
        """Ask ``collect`` for more at each scrape."""
        self.registry.register(_Late(collect))

    def exposition(self) -> tuple[int, bytes]:
        """Answer a scrape."""
        return 200, generate_latest(self.registry)


class _Late:
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self.collect = collect
