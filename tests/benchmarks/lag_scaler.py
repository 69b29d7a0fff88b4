"""What the lag scaler costs and how fast it answers, for 1, 100 and 1,000 different objects.

Server, callers and broker share the machine. The Go original, one configuration for all objects,
on a machine like this: 1,000 objects at 200 calls/s p50 0.5 ms, p99 2.4 ms, 10 % of a core,
19 MiB; with 240 partitions p99 70 ms; with 2,400 it missed 98 % of 3 s deadlines; flat out 3,101
calls/s with one caller and 6,222 with 16; one broker request for each partition and sample.
"""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.embedded.broker import Broker
from tests.benchmarks.figures import Aim, Figure, at_most
from tests.benchmarks.scaler_load import Caller, Calls, ScaledObject
from tests.benchmarks.stage import Child, Stage, open_stage

NAME = "scaler"
GROUPS = 50
PARTITIONS = 24
MANY_PARTITIONS = 2_400
OBJECT_COUNTS = (1, 100, 1_000)
CALLS_PER_SECOND = 200
INTERVAL_SECONDS = 10
PACED_SECONDS = 40.0
SHORTEST_SECONDS = 12.0
FLAT_OUT_SECONDS = 6.0
RECORDS_PER_PARTITION = 20
AIM_P99_MS = 5.0
AIM_CORE_PERCENT = 25.0
AIM_PSS_MIB = 150.0
AIM_REQUESTS_PER_SAMPLE = 2.0
ORIGINAL_PER_SECOND = {1: 3_101, 16: 6_222}
_LIMIT_SECONDS = 90.0
_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class _Setting:
    """A topic for each group, or one topic for all groups."""

    broker: Broker
    topics: tuple[str, ...]
    partitions: int

    def objects(self, count: int) -> list[ScaledObject]:
        """Return different objects: no two share a group and a rule."""
        return [
            ScaledObject.of(
                f"object-{number}",
                {
                    "bootstrapServers": self.broker.bootstrap_servers,
                    "topic": self.topics[number % GROUPS % len(self.topics)],
                    "consumerGroup": f"bench-group-{number % GROUPS}",
                    "lagThreshold": str(5 + number // GROUPS),
                    "sustainSeconds": str(60 + number // GROUPS),
                    "samplingInterval": str(INTERVAL_SECONDS),
                },
            )
            for number in range(count)
        ]


def measure(scale: float) -> Iterator[Figure]:
    """Yield latencies, costs and broker requests for each number of objects."""
    seconds = max(PACED_SECONDS * scale, SHORTEST_SECONDS)
    with open_stage() as stage:
        broker = stage.start_broker()
        few = _prepare(broker, [f"bench-{number}" for number in range(GROUPS)], PARTITIONS)
        for count in OBJECT_COUNTS:
            yield from _paced(stage, few, count, seconds)
        yield from _flat_out(stage, few, max(FLAT_OUT_SECONDS * scale, 2.0))
        many = _prepare(broker, ["bench-many"], MANY_PARTITIONS)
        yield from _paced(stage, many, OBJECT_COUNTS[-1], seconds)


def _prepare(broker: Broker, topics: list[str], partitions: int) -> _Setting:
    """Create and fill the topics; every group has lag in each partition, and commits."""
    with KafkaAdmin(broker.bootstrap_servers, timeout_seconds=_LIMIT_SECONDS) as admin:
        admin.create_topics([TopicSpec(name, partitions) for name in topics])
    settings = {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50, "log_level": 2}
    producer = Producer(settings)
    for name in topics:
        for number in range(partitions):
            for _ in range(RECORDS_PER_PARTITION):
                producer.produce(name, b"x", partition=number)
            producer.poll(0)
    if producer.flush(_LIMIT_SECONDS):
        raise TimeoutError("the records were not written in time")
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for group in range(GROUPS):
        name = topics[group % len(topics)]
        offsets = [TopicPartition(name, number, 1) for number in range(partitions)]
        _commit(client, ConsumerGroupTopicPartitions(f"bench-group-{group}", offsets))
    return _Setting(broker, tuple(topics), partitions)


def _commit(client: AdminClient, wanted: ConsumerGroupTopicPartitions) -> None:
    gives_up_at = time.monotonic() + _LIMIT_SECONDS
    while True:  # a new broker's first answers are errors until its coordinator has loaded
        answer = client.alter_consumer_group_offsets([wanted])[wanted.group_id].result(30)
        problems = [item.error for item in answer.topic_partitions if item.error is not None]
        if not problems:
            return
        if time.monotonic() > gives_up_at:
            raise TimeoutError(f"commits of {wanted.group_id}: {problems[0]}")
        time.sleep(0.1)


@dataclass(frozen=True, slots=True)
class _Server:
    child: Child
    port: int
    metrics_port: int

    def metric(self, name: str) -> float:
        """Return the sum of one metric's samples."""
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            text = answer.read().decode()
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        return sum(map(float, found))


@contextmanager
def _server(stage: Stage) -> Iterator[_Server]:
    """Run a scaler for the time of the block."""
    environment = {"PORT_GRPC": "0", "PORT_METRICS": "0"}
    child = stage.start_program("scaler", "lag_scaler", [], environment)

    def ports() -> tuple[int, int] | None:
        text = child.log.read_text(encoding="utf-8")
        found = re.search(r'"port": (\d+).*?"metrics_port": (\d+)', text)
        return (int(found[1]), int(found[2])) if found else None

    found = stage.await_true(ports, "the scaler's ports", within_seconds=30)
    try:
        yield _Server(child, *found)
    finally:
        stage.end(child)
        child.log.unlink(missing_ok=True)


def _paced(stage: Stage, setting: _Setting, count: int, seconds: float) -> Iterator[Figure]:
    objects = setting.objects(count)
    groups = min(count, GROUPS)
    with _server(stage) as server:
        caller = Caller(server.port)
        caller.first_answers(objects, within_seconds=_LIMIT_SECONDS)
        # What was sent is counted with the next sample: the start's requests are counted by then.
        time.sleep(2 * INTERVAL_SECONDS + 2)
        server_process = psutil.Process(server.child.pid)
        # The answering one, the one that forks, and the one that reads Kafka.
        processes = [server_process, *server_process.children(recursive=True)]
        cpu, began_at = _cpu_seconds(processes), time.monotonic()
        sent = server.metric("lagbench_scaler_broker_requests_total")
        samples = server.metric("lagbench_scaler_samples_total")
        calls = caller.paced(objects, CALLS_PER_SECOND, seconds)
        elapsed = time.monotonic() - began_at
        cpu_percent = (_cpu_seconds(processes) - cpu) / elapsed * 100
        # A page that several share counts once.
        pss_mib = sum(process.memory_full_info().pss for process in processes) / _MIB
        sent = server.metric("lagbench_scaler_broker_requests_total") - sent
        samples = server.metric("lagbench_scaler_samples_total") - samples
        caller.close()
    what = f"{count:,} objects x {setting.partitions:,}"
    yield from _latencies(what, calls)
    yield Figure(f"{what}: CPU", cpu_percent, "% of a core", at_most(AIM_CORE_PERCENT))
    yield Figure(f"{what}: PSS", pss_mib, "MiB", at_most(AIM_PSS_MIB))
    yield Figure(f"{what}: broker requests", sent / elapsed, "1/s", None, f"{groups} groups")
    aim: Aim | None = at_most(AIM_REQUESTS_PER_SAMPLE) if samples else None
    per_sample = sent / samples if samples else None
    note = "ListOffsets and OffsetFetch, now and then metadata"
    yield Figure(f"{what}: requests per group's sample", per_sample, "", aim, note)


def _latencies(what: str, calls: Calls) -> Iterator[Figure]:
    failed = f"; {len(calls.errors)} failed: {calls.errors[0]}" if calls.errors else ""
    note = f"{calls.count:,} calls at {CALLS_PER_SECOND}/s{failed}"
    for method in ("GetMetrics", "IsActive"):
        for share in (50, 95, 99):
            value = calls.percentile_ms(method, share)
            aim = at_most(AIM_P99_MS) if share == 99 else None
            yield Figure(f"{what}: {method} p{share}", value, "ms", aim, note)
    yield Figure(f"{what}: failed calls", float(len(calls.errors)), "", at_most(0))


def _flat_out(stage: Stage, setting: _Setting, seconds: float) -> Iterator[Figure]:
    objects = setting.objects(OBJECT_COUNTS[-1])
    with _server(stage) as server:
        caller = Caller(server.port)
        caller.first_answers(objects, within_seconds=_LIMIT_SECONDS)
        for callers, original in ORIGINAL_PER_SECOND.items():
            calls = caller.flat_out(objects, callers, seconds)
            note = f"the original: {original:,}, called by Go; here Python calls as well"
            rate = calls.count / seconds
            yield Figure(f"GetMetrics flat out, {callers} callers", rate, "1/s", None, note)
        caller.close()


def _cpu_seconds(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return float(sum(spent.user + spent.system for spent in times))
