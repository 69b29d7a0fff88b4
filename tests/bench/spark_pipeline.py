"""Landing and accounting of a large run with Spark: rows a second, wall time, peak memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.scenario.run_names import RunNames
from lagbench.embedded.broker import Broker
from lagbench.embedded.spark_packages import spark_environment, spark_jars
from lagbench.errors import NotReady
from lagbench.programs.producer.flags import read_settings
from lagbench.project import PROJECT_ROOT
from tests.bench.figures import Figure, at_most
from tests.bench.load import Sent, send_load
from tests.bench.stage import Stage, create_topics, open_stage
from tests.bench.synthetic_ledger import report_pods, write_ledger

NAME = "spark"
EVENTS = 20_000_000
FEWEST_EVENTS = 100_000
PARTITIONS = 24
AIM_SECONDS = 180.0
AIM_GIB = 4.0
# As the Dag submits the jobs: connection spark_default, and the operator's heap.
MASTER = "local[2]"
DRIVER_MEMORY = "2g"
_GIB = 1024**3
_LIMIT_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class JobCost:
    """What one job took."""

    seconds: float
    processor_seconds: float
    peak_gib: float


def measure(scale: float) -> Iterator[Figure]:
    """Yield rows a second, seconds and peak memory of both jobs."""
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
        costs = {
            "land": _submit(stage, "land", folder, topics),
            "account": _submit(stage, "account", folder, []),
        }
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
    for job, cost in costs.items():
        yield Figure(f"{job}: rows", events / cost.seconds, "events/s", None, "with Spark's start")
        yield Figure(f"{job}: wall", cost.seconds, "s")
        yield Figure(f"{job}: processor time", cost.processor_seconds, "s")
        yield Figure(f"{job}: peak memory", cost.peak_gib, "GiB", at_most(AIM_GIB), "PSS, all")
    total = sum(cost.seconds for cost in costs.values())
    aim = at_most(AIM_SECONDS) if is_whole else None
    yield Figure(f"{events:,} events: land + account", total, "s", aim, aimed)
    yield Figure("tables in the run folder", table_bytes / 1e6, "MB")
    yield Figure("filling the topics", filled_seconds, "s", None, "not part of the pipeline")


def _fill(stage: Stage, broker: Broker, names: RunNames, events: int) -> Sent:
    flags = ["--flat-out", "--count", str(events), "--partitions", str(PARTITIONS)]
    sent = send_load(stage, broker, names, flags, within_seconds=_LIMIT_SECONDS)
    started_at = sent.started.stream_started_at
    flags += ["--run-id", names.run_id, "--bootstrap-servers", broker.bootstrap_servers]
    report_pods(broker.bootstrap_servers, names, PARTITIONS, at=started_at)
    rows = write_ledger(read_settings(flags, {}), names, PARTITIONS, stream_started_at=started_at)
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


def _submit(stage: Stage, job: str, folder: RunFolder, topics: list[str]) -> JobCost:
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit")]
    command += ["--master", MASTER, "--driver-memory", DRIVER_MEMORY]
    command += ["--jars", ",".join(str(path) for path in spark_jars())]
    command += [str(PROJECT_ROOT / "spark_jobs" / f"{job}.py"), "--run-folder", str(folder.path)]
    scratch = stage.folder / "spark"
    environment = {**spark_environment(), "SPARK_LOCAL_DIRS": str(scratch), "TMPDIR": str(scratch)}
    scratch.mkdir(exist_ok=True)
    began_at, spent = time.monotonic(), _children_seconds()
    child = stage.start(f"spark-{job}", [*command, *topics], environment)
    peak = 0

    def watch() -> None:
        nonlocal peak
        peak = max(peak, _tree_bytes(child.pid))

    stage.finish(child, within_seconds=_LIMIT_SECONDS, watch=watch)
    seconds = time.monotonic() - began_at
    return JobCost(seconds, _children_seconds() - spent, peak / _GIB)


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
