"""What the lag scaler costs and how fast it answers, for 1, 100 and 1,000 different objects.

Server, callers and broker share the machine.
"""

from __future__ import annotations

import re
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
import psutil
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lag_scaler.wire import externalscaler_pb2 as wire
from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.embedded.broker import Broker
from tests.benchmarks.figures import Aim, Figure, at_most
from tests.benchmarks.stage import Child, Stage, await_true, open_stage

GROUPS = 50
PARTITIONS = 24
OBJECT_COUNTS = (1, 100, 1_000)
CALLS_PER_SECOND = 200
INTERVAL_SECONDS = 10
PACED_SECONDS = 40.0
SHORTEST_SECONDS = 12.0
RECORDS_PER_PARTITION = 20
AIM_P99_MS = 5.0
AIM_CORE_PERCENT = 25.0
AIM_PSS_MIB = 150.0
AIM_REQUESTS_PER_SAMPLE = 2.0
_LIMIT_SECONDS = 90.0
_MIB = 1024**2


_SERVICE = "/externalscaler.ExternalScaler"
_TIMEOUT_SECONDS = 3.0  # KEDA's own
PACED_CALLERS = 8
"""At 200 calls/s each calls every 40 ms, so that one slow answer delays no other call."""


@dataclass(frozen=True, slots=True)
class ScaledObject:
    """One object as KEDA names it; requests are serialized beforehand."""

    is_active: bytes
    get_metrics: bytes

    @classmethod
    def of(cls, name: str, metadata: dict[str, str]) -> ScaledObject:
        """Return the requests for an object with this trigger metadata."""
        ref = wire.ScaledObjectRef(name=name, namespace="bench", scalerMetadata=metadata)
        ask = wire.GetMetricsRequest(scaledObjectRef=ref)
        return cls(ref.SerializeToString(), ask.SerializeToString())


@dataclass(slots=True)
class Calls:
    """The answers: seconds by method, and the number of failures."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, method: str, seconds: float) -> None:
        """Keep one answer's time."""
        with self._lock:
            self.seconds.setdefault(method, []).append(seconds)

    def failed(self, reason: str) -> None:
        """Keep one failure."""
        with self._lock:
            self.errors.append(reason)

    @property
    def count(self) -> int:
        """Number of answers."""
        return sum(map(len, self.seconds.values()))

    def percentile_ms(self, method: str, share: float) -> float:
        """Return a percentile of one method's times."""
        return float(np.percentile(self.seconds[method], share) * 1_000)


class Caller:
    """Calls one server over one channel, as KEDA's operator does."""

    def __init__(self, port: int) -> None:
        """Open the channel."""
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        names = ("IsActive", "GetMetrics")
        self._methods = {name: self._channel.unary_unary(f"{_SERVICE}/{name}") for name in names}

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def first_answers(self, objects: Sequence[ScaledObject], *, within_seconds: float) -> None:
        """Ask about every object until each has answered once."""
        gives_up_at = time.monotonic() + within_seconds
        for item in objects:
            while True:
                try:
                    self._methods["IsActive"](item.is_active, timeout=_TIMEOUT_SECONDS)
                    break
                except grpc.RpcError:
                    if time.monotonic() > gives_up_at:
                        raise

    def paced(self, objects: Sequence[ScaledObject], per_second: float, seconds: float) -> Calls:
        """Call at an even rate, objects in turn, both methods for each."""
        calls, step = Calls(), PACED_CALLERS / per_second
        start = time.monotonic() + 0.05

        def work(number: int) -> None:
            due = start + number / per_second
            index = number
            while due < start + seconds:
                time.sleep(max(0.0, due - time.monotonic()))
                self._call(calls, objects[(index // 2) % len(objects)], index)
                due, index = due + step, index + PACED_CALLERS

        _run_all([threading.Thread(target=work, args=(n,)) for n in range(PACED_CALLERS)])
        return calls

    def _call(self, calls: Calls, item: ScaledObject, index: int) -> None:
        method = "GetMetrics" if index % 2 else "IsActive"
        request: Any = item.get_metrics if index % 2 else item.is_active
        began_at = time.perf_counter()
        try:
            self._methods[method](request, timeout=_TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            calls.failed(f"{error.code().name}: {error.details()}")
        else:
            calls.add(method, time.perf_counter() - began_at)


def _run_all(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _objects(broker: Broker, count: int) -> list[ScaledObject]:
    """Return different objects: no two share a group and a rule."""
    return [
        ScaledObject.of(
            f"object-{number}",
            {
                "bootstrapServers": broker.bootstrap_servers,
                "topic": f"bench-{number % GROUPS}",
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
        _prepare(broker)
        for count in OBJECT_COUNTS:
            yield from _paced(stage, broker, count, seconds)


def _prepare(broker: Broker) -> None:
    """Create and fill a topic for each group, which has lag in each partition, and commits."""
    topics = [f"bench-{number}" for number in range(GROUPS)]
    with KafkaAdmin(broker.bootstrap_servers, timeout_seconds=_LIMIT_SECONDS) as admin:
        admin.create_topics([TopicSpec(name, PARTITIONS) for name in topics])
    settings = {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50, "log_level": 2}
    producer = Producer(settings)
    for name in topics:
        for number in range(PARTITIONS):
            for _ in range(RECORDS_PER_PARTITION):
                producer.produce(name, b"x", partition=number)
            producer.poll(0)
    if producer.flush(_LIMIT_SECONDS):
        raise TimeoutError("the records were not written in time")
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for group, name in enumerate(topics):
        offsets = [TopicPartition(name, number, 1) for number in range(PARTITIONS)]
        _commit(client, ConsumerGroupTopicPartitions(f"bench-group-{group}", offsets))


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

    found = await_true(ports, "the scaler's ports", within_seconds=30, needs=[child])
    try:
        yield _Server(child, *found)
    finally:
        stage.end(child)
        child.log.unlink(missing_ok=True)


def _paced(stage: Stage, broker: Broker, count: int, seconds: float) -> Iterator[Figure]:
    objects = _objects(broker, count)
    groups = min(count, GROUPS)
    with _server(stage) as server:
        caller = Caller(server.port)
        caller.first_answers(objects, within_seconds=_LIMIT_SECONDS)
        # What was sent is counted with the next sample: the start's requests are counted by then.
        time.sleep(2 * INTERVAL_SECONDS + 2)
        server_process = psutil.Process(server.child.process.pid)
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
    what = f"{count:,} objects x {PARTITIONS}"
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


def _cpu_seconds(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return float(sum(spent.user + spent.system for spent in times))
