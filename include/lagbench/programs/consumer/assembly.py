"""Put a pod together in the order that makes it ready soonest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.programs.consumer.consumer_settings import ConsumerOptions
from lagbench.programs.consumer.pod_reports import Exposition, PodCounts, PodReports
from pod_program.http_endpoint import HttpEndpoint, Routes, address_and_port, probe_routes
from pod_program.kafka_settings import RECOVERY, own_settings
from pod_program.steady_clock import SteadyClock

if TYPE_CHECKING:
    from lagbench.programs.consumer.consumer_pod import ConsumerPod

_TELEMETRY_FLUSH_SECONDS = 5.0


def open_endpoint(environment: Mapping[str, str]) -> PodCounts:
    """Answer probes from now on, alive and not ready; return the figures that are shown."""
    pod_counts = PodCounts()
    routes: Routes = {
        "/metrics": Exposition(pod_counts),
        **probe_routes(lambda: pod_counts.is_ready),
    }
    HttpEndpoint(*address_and_port(environment), routes)
    return pod_counts


@contextmanager
def assemble(options: ConsumerOptions, pod_counts: PodCounts) -> Iterator[ConsumerPod]:
    """Yield a subscribed pod; telemetry is flushed at the end, with a failure's reason in it."""
    # What a pod reports is the bench's: it must not be lost in a disturbance of the workload.
    servers = options.telemetry_servers or options.bootstrap_servers
    telemetry = TelemetryLog(servers, options.telemetry_topic)
    clock = SteadyClock()
    reports = PodReports(options, telemetry.send, pod_counts, clock)
    reports.pod_started()
    try:
        pod = _subscribed_pod(options, reports, clock)
        try:
            yield pod
        except Exception as error:
            pod.report_failure(str(error))
            raise
    finally:
        telemetry.flush(_TELEMETRY_FLUSH_SECONDS)


def _subscribed_pod(
    options: ConsumerOptions, reports: PodReports, clock: SteadyClock
) -> ConsumerPod:
    pods: list[ConsumerPod] = []  # filled below, before the first poll: callbacks run in polls only

    def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        pods[0].commits.on_result(error, partitions, pods[0].queues.owned())

    consumer = Consumer(consumer_settings(options) | {"on_commit": on_commit})
    consumer.subscribe(
        [options.topic],
        # pods[0] is there at the time of the call, not yet here
        on_assign=lambda *given: pods[0].rebalancing.on_assign(*given),  # noqa: PLW0108
        on_revoke=lambda *given: pods[0].rebalancing.on_revoke(*given),  # noqa: PLW0108
        on_lost=lambda *given: pods[0].rebalancing.on_lost(*given),  # noqa: PLW0108
    )
    # pyarrow and the rest take 0.2 s to import; the client connects and joins meanwhile.
    from lagbench.programs.consumer.consumer_pod import ConsumerPod

    pods.append(ConsumerPod(options, consumer, reports, clock))
    return pods[0]


# One fetch stays below a thousand 256-byte events per partition, so that a pod holds little that
# the next owner would have to fetch again.
_FETCH_BYTES_PER_PARTITION = 256 * 1024


def consumer_settings(options: ConsumerOptions) -> dict[str, Any]:
    """Return the consumer's configuration; KIP-848 rejects the classic protocol's settings."""
    settings: dict[str, Any] = {
        **own_settings(options.bootstrap_servers),
        "client.id": options.pod_name,
        "group.id": options.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": options.commit == "auto",
        # auto: what most people run. An offset counts as read when it was handed over, done or not.
        "enable.auto.offset.store": options.commit == "auto",
        "auto.commit.interval.ms": round(options.commit_interval_seconds * 1000),
        # A fetch that waits for idle partitions delays a newly assigned one by this long.
        "fetch.wait.max.ms": 50,
        "fetch.queue.backoff.ms": 10,  # default 1 s: a short prefetch queue would starve
        "fetch.error.backoff.ms": 100,
        "max.partition.fetch.bytes": _FETCH_BYTES_PER_PARTITION,
        "queued.min.messages": 1000,
        "queued.max.messages.kbytes": 4096,
        **RECOVERY,
        "log_level": 4,
    }
    if options.instance_id:
        settings["group.instance.id"] = options.instance_id
    if options.is_next_generation:
        settings["group.protocol"] = "consumer"
        return settings
    settings |= {
        "group.protocol": "classic",
        "partition.assignment.strategy": options.balancer,
        "session.timeout.ms": options.session_timeout_ms,
        # Members learn of a rebalance from the next heartbeat: 0.2 s a step.
        "heartbeat.interval.ms": 200,
    }
    return settings
