"""The scaler's own figures for Prometheus; what is only known at a scrape is collected then."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from lag_scaler.rule import Decision, LagUnavailable
from lag_scaler.sampler import ClusterSampler
from lag_scaler.watched import Watched

# The aim is a p99 of 5 ms; what waits for a first sample takes up to 2.5 s.
_BUCKETS_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)
_OF_A_DECISION: tuple[tuple[str, str, Callable[[Decision], float]], ...] = (
    ("lag_records", "Total lag of the partitions that count", lambda it: it.figures.total_lag),
    (
        "largest_lag_records",
        "Lag of the partition with the most",
        lambda it: it.figures.largest_lag,
    ),
    (
        "persistence_seconds",
        "Time for which lag has been at or above the threshold without a gap",
        lambda it: it.span_seconds,
    ),
    (
        "sustain_seconds",
        "Time after which lag counts as persistent",
        lambda it: it.rule.sustain_seconds,
    ),
    ("persistent", "1: lag has lasted for the sustain time", lambda it: it.is_persistent),
    ("active", "1: the answer of IsActive is true", lambda it: it.is_active),
    ("metric_value", "The answer of GetMetrics, after stabilisation", lambda it: it.metric_value),
    ("metric_target", "Target per replica of that metric", lambda it: it.target),
)


class ScalerMetrics:
    """Counts what is served and sampled."""

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
        self.specs_sent = counter(
            "specs_sent", "Targets sent over StreamMetricSpec; KEDA writes each one to the HPA"
        )
        self.state_writes = counter("state_writes", "Attempts to write the state file", "result")

    def forget_cluster(self, name: str) -> None:
        """Drop the series of a cluster that is no longer sampled: callers name clusters."""
        for result in ("good", "failed"):
            with contextlib.suppress(KeyError):
                self.samples.remove(name, result)

    def exposition(self) -> tuple[int, bytes]:
        """Answer a scrape."""
        return 200, generate_latest(self.registry)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"lagbench_scaler_{name}", text, labels=labels)


def decision_metrics(objects: Iterable[Watched]) -> Iterator[Metric]:
    """Yield per object what was seen and what is served; without a decision its series are missing.

    Of two with the same labels (metadata that has just changed, or two triggers on one group and
    topic) the later one is shown: Prometheus rejects a scrape with the same series twice.
    """
    decisions: dict[tuple[str, str, str], Decision | None] = {}
    for watched in objects:
        group_topic = watched.settings.group_topic
        labels = (watched.name, group_topic.group, group_topic.topic)
        decisions[labels] = None
        with contextlib.suppress(LagUnavailable):
            decisions[labels] = watched.decision()
    for name, text, read in _OF_A_DECISION:
        family = _gauge(f"object_{name}", text, "object", "group", "topic")
        for labels, decision in decisions.items():
            if decision is not None:
                family.add_metric(labels, float(read(decision)))
        yield family


def sampling_metrics(
    samplers: Iterable[ClusterSampler], objects: int, now_ns: int
) -> Iterator[Metric]:
    """Yield how much is watched, how old the samples are, and what was asked of brokers."""
    watched = _gauge("objects", "Objects watched")
    watched.add_metric([], objects)
    groups = _gauge("groups", "Groups sampled, by cluster", "cluster")
    ages = _gauge(
        "sample_age_seconds",
        "Age of the newest good sample; without one the series is missing",
        *("cluster", "group", "topic", "interval_seconds"),
    )
    requests = CounterMetricFamily(
        "lagbench_scaler_broker_requests", "Requests sent to brokers", labels=["cluster"]
    )
    for sampler in samplers:
        name, feeds = sampler.address.name, list(sampler.feeds.values())
        groups.add_metric([name], len(feeds))
        for feed in feeds:
            if feed.newest_at_ns is not None:
                group_topic, interval = feed.key
                labels = [name, group_topic.group, group_topic.topic, f"{interval:g}"]
                ages.add_metric(labels, (now_ns - feed.newest_at_ns) / 1e9)
        if sampler.broker_requests is not None:
            requests.add_metric([name], sampler.broker_requests)
    yield from (watched, groups, ages, requests)
