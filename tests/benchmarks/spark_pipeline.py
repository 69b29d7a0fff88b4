"""The pipeline on a large run: rows a second, wall time of its parts, peak memory.

Nobody consumes: the ledger of consumers that processed the whole stream once is written directly.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pyspark
from confluent_kafka import Producer

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.adapters.runs.run_folder import LANDED_TABLES, RunFolder
from lagbench.core.scenario.event_stream import BLOCK_EVENTS, EventBlock, EventStream, partitions_of
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.telemetry.records_of_programs import PartitionsAssigned, PodStopped
from lagbench.embedded.broker import Broker
from lagbench.embedded.java import driver_options, find_java
from lagbench.embedded.spark_packages import SPARK_JOBS, spark_environment, spark_jars
from lagbench.errors import NotReady
from lagbench.programs.consumer.ledger import encode_batch, ledger_schema
from lagbench.programs.consumer.work_queues import PartitionWork, Writes
from lagbench.programs.producer.producer_settings import ProducerSettings, read_settings
from tests.benchmarks.figures import Figure, at_most
from tests.benchmarks.stage import Sent, Stage, create_topics, open_stage, send_load

EVENTS = 20_000_000
FEWEST_EVENTS = 100_000
PARTITIONS = 24
AIM_SECONDS = 120.0
AIM_GIB = 4.0
# As the Dag submits the pipeline: connection spark_default, and the operator's heap.
MASTER = "local[2]"
DRIVER_MEMORY = "2g"
_GIB = 1024**3
_LIMIT_SECONDS = 1800.0
PODS = 12
BATCH_ROWS = 5000
_BLOCKS_AT_ONCE = 16
_STARTED_AFTER_NS = 3_000_000
_DONE_AFTER_NS = 5_000_000
_FLUSH_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class JobCost:
    """The duration of the pipeline, and when its parts ended, from its start."""

    seconds: float
    landed_seconds: float
    accounted_seconds: float
    processor_seconds: float
    peak_gib: float


def measure(scale: float) -> Iterator[Figure]:
    """Yield rows a second, seconds and peak memory."""
    events = max(round(EVENTS * scale), FEWEST_EVENTS)
    names = RunNames("large-run")
    with open_stage() as stage:
        broker = stage.start_broker()
        create_topics(broker, names, PARTITIONS)
        began_at = time.monotonic()
        sent = _fill(stage, broker, names, events)
        filled_seconds = time.monotonic() - began_at
        folder = _fenced_folder(stage, broker, names, sent)
        topics = ["--bootstrap-servers", broker.bootstrap_servers]
        topics += ["--events-topic", names.events_topic]
        topics += ["--processed-topic", names.processed_topic]
        topics += ["--telemetry-topic", names.telemetry_topic]
        with driver_options(find_java(), messages=events) as options:
            cost = _submit(stage, folder, ["--driver-java-options", options], topics)
        counted = folder.read_json(folder.accounting)
        table_bytes = sum(f.stat().st_size for f in folder.tables.rglob("*") if f.is_file())
    wrong = {
        name: counted[name]
        for name in ("lost", "duplicated", "reordered", "zombie", "not_in_log", "produced_twice")
        if counted[name]
    }
    if wrong or not events == counted["in_log"] == counted["processed_distinct"]:
        raise NotReady(f"the accounting of {events:,} clean events says {counted}")
    is_whole = scale >= 1
    aimed = "" if is_whole else f"the aim is for {EVENTS:,}"
    rows, landed = events / cost.landed_seconds, cost.landed_seconds
    yield Figure("landing: rows", rows, "events/s", None, "with Spark's start")
    yield Figure("landing: wall", landed, "s", None, "with Spark's start")
    beside = "the timeline is drawn beside it"
    yield Figure("accounting: wall", cost.accounted_seconds - landed, "s", None, beside)
    yield Figure("pipeline: wall", cost.seconds, "s")
    yield Figure("pipeline: processor time", cost.processor_seconds, "s")
    yield Figure("pipeline: peak memory", cost.peak_gib, "GiB", at_most(AIM_GIB), "PSS, all")
    aim = at_most(AIM_SECONDS) if is_whole else None
    yield Figure(f"{events:,} events: landed, accounted", cost.accounted_seconds, "s", aim, aimed)
    yield Figure("tables in the run folder", table_bytes / 1e6, "MB")
    yield Figure("filling the topics", filled_seconds, "s", None, "not part of the pipeline")


def _fill(stage: Stage, broker: Broker, names: RunNames, events: int) -> Sent:
    flags = ["--flat-out", "--count", str(events), "--partitions", str(PARTITIONS)]
    sent = send_load(stage, broker, names, flags, within_seconds=_LIMIT_SECONDS)
    started_at = sent.started.stream_started_at
    flags += ["--run-id", names.run_id, "--bootstrap-servers", broker.bootstrap_servers]
    _report_pods(broker.bootstrap_servers, names, PARTITIONS, at=started_at)
    rows = _write_ledger(read_settings(flags, {}), names, PARTITIONS, stream_started_at=started_at)
    if rows != sent.finished.acked:
        raise NotReady(f"{rows:,} ledger rows for {sent.finished.acked:,} acknowledged events")
    return sent


def _fenced_folder(stage: Stage, broker: Broker, names: RunNames, sent: Sent) -> RunFolder:
    folder = RunFolder.create(names.run_id, stage.folder / "runs")
    with KafkaAdmin(broker.bootstrap_servers) as admin:
        ends = {topic: admin.end_offsets(topic) for topic in names.topics}
    fence = {
        "events": ends[names.events_topic],
        "processed": ends[names.processed_topic],
        "telemetry": ends[names.telemetry_topic],
        "committed": ends[names.events_topic],
        "stream_started_at": sent.started.stream_started_at,
        "fenced_at": time.time_ns(),
    }
    folder.write_json(folder.fence, fence)
    return folder


def _submit(stage: Stage, folder: RunFolder, options: list[str], topics: list[str]) -> JobCost:
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit")]
    command += ["--master", MASTER, "--driver-memory", DRIVER_MEMORY]
    command += ["--jars", ",".join(str(path) for path in spark_jars()), *options]
    command += [str(SPARK_JOBS / "pipeline.py"), "--run-folder", str(folder.path)]
    scratch = stage.folder / "spark"
    environment = {**spark_environment(), "SPARK_LOCAL_DIRS": str(scratch), "TMPDIR": str(scratch)}
    scratch.mkdir(exist_ok=True)
    began_at, spent = time.time(), _children_seconds()
    child = stage.start("spark-pipeline", [*command, *topics], environment)
    peak = 0

    def watch() -> None:
        nonlocal peak
        peak = max(peak, _tree_bytes(child.pid))

    stage.finish(child, within_seconds=_LIMIT_SECONDS, watch=watch)
    ended_at = time.time()
    landed_at = max((folder.table(name) / "_SUCCESS").stat().st_mtime for name in LANDED_TABLES)
    return JobCost(
        seconds=ended_at - began_at,
        landed_seconds=landed_at - began_at,
        accounted_seconds=folder.accounting.stat().st_mtime - began_at,
        processor_seconds=_children_seconds() - spent,
        peak_gib=peak / _GIB,
    )


def _children_seconds() -> float:
    """Return the processor time of the children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tree_bytes(pid: int) -> int:
    """Return the memory of a process and all below it, shared pages counted once (PSS)."""
    total = 0
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for process in family:
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied, FileNotFoundError):
            continue  # it has ended since the listing
    return total


def _pod_of(partition: int) -> str:
    """Return the pod that owns a partition from beginning to end."""
    return f"consumer-{partition % PODS:02}"


def _write_ledger(
    settings: ProducerSettings, names: RunNames, partitions: int, *, stream_started_at: int
) -> int:
    """Write the ledger of the stream that ``settings`` describe; returns its rows.

    Offsets are known without reading: the producer is idempotent and fills each partition in the
    order of seq.
    """
    works = [PartitionWork(number, f"member-{_pod_of(number)}") for number in range(partitions)]
    schemas = [ledger_schema(w.partition, _pod_of(w.partition), w.member_id) for w in works]
    producer = Producer(
        {
            "bootstrap.servers": settings.flags.bootstrap_servers,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
        }
    )
    next_offset = [0] * partitions
    for events in _chunks(settings):
        where = partitions_of(events["entity_id"], partitions)
        order = np.argsort(where, kind="stable")
        borders = np.searchsorted(where[order], np.arange(partitions + 1))
        for work, schema, first, end in zip(works, schemas, borders, borders[1:], strict=False):
            for start in range(first, end, BATCH_ROWS):
                rows = events[order[start : min(start + BATCH_ROWS, end)]]
                planned_at = stream_started_at + rows["planned_offset_ns"]
                offset = next_offset[work.partition]
                writes = Writes(
                    work,
                    np.arange(offset, offset + rows.size, dtype=np.int64),
                    rows,
                    planned_at + _STARTED_AFTER_NS,
                    planned_at + _DONE_AFTER_NS,
                )
                _send(producer, names, work.partition, encode_batch([writes], schema))
                next_offset[work.partition] += rows.size
    if left := producer.flush(_FLUSH_SECONDS):
        raise NotReady(f"{left} ledger records were not acknowledged")
    return sum(next_offset)


def _report_pods(bootstrap_servers: str, names: RunNames, partitions: int, *, at: int) -> None:
    """Tell the telemetry who owned what from ``at`` on, and that every pod drained."""
    log = TelemetryLog(bootstrap_servers, names.telemetry_topic)
    for pod in {_pod_of(number) for number in range(partitions)}:
        owned = [number for number in range(partitions) if _pod_of(number) == pod]
        log.send(
            PartitionsAssigned(
                at=at,
                source=pod,
                member_id=f"member-{pod}",
                partitions=owned,
                owned=owned,
                is_incremental=True,
                rebalance=1,
            )
        )
        log.send(
            PodStopped(
                at=at,
                source=pod,
                reason="SIGTERM",
                is_graceful=True,
                abandoned=0,
                processed_total=0,
            )
        )
    if log.flush(_FLUSH_SECONDS):
        raise NotReady("the pods' telemetry was not acknowledged")


def _chunks(settings: ProducerSettings) -> Iterator[EventBlock]:
    stream = EventStream(
        settings.load,
        settings.keys,
        seed=settings.flags.seed,
        producer_id=settings.flags.producer_id,
    )
    step = BLOCK_EVENTS * _BLOCKS_AT_ONCE
    for first in range(0, settings.load.total, step):
        yield stream.events(first, first + step)


def _send(producer: Producer, names: RunNames, partition: int, value: bytes) -> None:
    while True:
        try:
            producer.produce(names.processed_topic, value, partition.to_bytes(4, "big"))
        except BufferError:
            producer.poll(0.05)
        else:
            producer.poll(0)
            return
