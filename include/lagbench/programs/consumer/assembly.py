"""Put a pod together in the order that makes it ready soonest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from confluent_kafka import Consumer, KafkaError, TopicPartition

from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.programs.consumer.consumer_settings import ConsumerOptions
from lagbench.programs.consumer.kafka_settings import consumer_settings, ledger_settings
from lagbench.programs.consumer.pod_reports import Exposition, PodCounts, PodReports
from pod_program.http_endpoint import HttpEndpoint, Routes, address_and_port, probe_routes
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
    reports = PodReports(options, telemetry, pod_counts, clock)
    reports.pod_started()
    try:
        pod = _subscribed_pod(options, pod_counts, reports, clock)
        try:
            yield pod
        except Exception as error:
            pod.report_failure(str(error))
            raise
    finally:
        telemetry.flush(_TELEMETRY_FLUSH_SECONDS)


def _subscribed_pod(
    options: ConsumerOptions, pod_counts: PodCounts, reports: PodReports, clock: SteadyClock
) -> ConsumerPod:
    pods: list[ConsumerPod] = []  # filled below, before the first poll: callbacks run in polls only

    def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        cause: Literal["auto", "interval"] = "auto" if options.commit == "auto" else "interval"
        pods[0].commits.on_result(error, partitions, pods[0].queues.owned(), cause)

    consumer = Consumer(consumer_settings(options) | {"on_commit": on_commit})
    consumer.subscribe(
        [options.topic],
        # pods[0] is there at the time of the call, not yet here
        on_assign=lambda *given: pods[0].rebalancing.on_assign(*given),  # noqa: PLW0108
        on_revoke=lambda *given: pods[0].rebalancing.on_revoke(*given),  # noqa: PLW0108
        on_lost=lambda *given: pods[0].rebalancing.on_lost(*given),  # noqa: PLW0108
    )
    # numpy and pyarrow take 0.2 s to import; the client connects and joins meanwhile.
    from lagbench.programs.consumer.consumer_pod import ConsumerPod
    from lagbench.programs.consumer.ledger import Ledger, LedgerWriter
    from lagbench.programs.consumer.offset_commits import OffsetCommits
    from lagbench.programs.consumer.rebalance import GroupIdentity, Rebalancing
    from lagbench.programs.consumer.work_queues import WorkQueues
    from lagbench.programs.consumer.worker import MessageCosts, Worker
    from lagbench.programs.consumer.write_schedule import DownstreamClock, WriteSchedule

    queues = WorkQueues(options.concurrency, on_acknowledged=reports.first_record_done)
    downstream = DownstreamClock(options.pace)
    costs = MessageCosts.of(options)
    schedule = WriteSchedule(costs.mean_ns, options.concurrency, downstream)
    settings = ledger_settings(options)
    identity = GroupIdentity()
    ledger: LedgerWriter
    if options.is_transactional:
        from lagbench.programs.consumer.transactional_ledger import TransactionalLedger

        ledger = TransactionalLedger(settings, options, identity, queues, reports)
    else:
        ledger = Ledger(settings, options.processed_topic, options.pod_name, queues.acknowledge)
    commits = OffsetCommits(
        consumer, options.topic, reports, interval_seconds=options.commit_interval_seconds
    )
    rebalancing = Rebalancing(options, queues, commits, reports, identity)
    worker = Worker(queues, schedule, ledger, clock, cpu_ns=costs.cpu_ns)
    pod = ConsumerPod(
        options,
        consumer,
        queues,
        worker,
        costs,
        commits,
        rebalancing,
        identity,
        reports,
        pod_counts,
        clock,
        downstream,
    )
    pods.append(pod)
    return pod
