"""Figures that are looked up when Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric

from lagbench.programs.external_scaler.cluster_sampler import ClusterSampler
from lagbench.programs.external_scaler.figures import counter, gauge


def sampling_figures(
    samplers: Iterable[ClusterSampler], objects: int, now_ns: int
) -> Iterator[Metric]:
    """Yield how much is watched, how old the samples are, and what was asked of brokers."""
    watched = gauge("objects", "Objects watched")
    watched.add_metric([], objects)
    yield watched
    groups = gauge("groups", "Groups sampled, by cluster", ("cluster",))
    ages = gauge(
        "sample_age_seconds",
        "Age of the newest good sample; without one the series is missing",
        ("cluster", "group", "topic", "interval_seconds"),
    )
    requests = counter("broker_requests", "Requests sent to brokers", ("cluster",))
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
    yield from (groups, ages, requests)
