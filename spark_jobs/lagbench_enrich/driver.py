"""The driver: warm the workers up, run the query, publish its offsets, end with SIGTERM.

Exit code 0 after SIGTERM, 2 for wrong flags, 3 when Spark or Kafka is not there or the query fails.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping

import psutil
import pyarrow as pa
import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.adapters.process.stop_signal import StopSignal
from lagbench.core.telemetry.records_of_programs import SparkDriverStarted
from lagbench.errors import ExitCode, LagbenchError, NotReady
from lagbench.shared_with_spark.kafka_options import spark_kafka_options
from lagbench_enrich.offsets import BatchListener, OffsetPublisher, checkpointed
from lagbench_enrich.session import EnrichOptions, open_session, parse_options
from lagbench_enrich.task import TASK_SCHEMA, BatchTask, run_task, warm_up
from pod_program.http_endpoint import HttpEndpoint, address_and_port, probe_routes

_EXECUTORS_SECONDS = 120.0
_LOOK_SECONDS = 0.1
_IDLE_SECONDS = 15.0
"""After SIGTERM a batch in flight may end by itself; the next start would repeat it."""
_TELEMETRY_SECONDS = 5.0

log = logging.getLogger("lagbench_enrich")


def main() -> int:
    """Run as a program."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stopping = StopSignal.caught()
    try:
        options = parse_options(sys.argv[1:], os.environ)
        code = _run(options, os.environ, stopping)
    except LagbenchError as error:
        sys.stderr.write(f"{error}\n")
        code = int(error.exit_code)
    except PySparkException:
        log.exception("Spark failed")
        code = int(ExitCode.NOT_READY)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # clients of a broker that is away would hold the end up; the JVM sees it end


def _run(options: EnrichOptions, environment: Mapping[str, str], stopping: StopSignal) -> int:
    is_ready = threading.Event()
    HttpEndpoint(*address_and_port(environment), probe_routes(is_ready.is_set))
    telemetry = TelemetryLog(options.bootstrap_servers, options.telemetry_topic)
    publisher = OffsetPublisher(options.bootstrap_servers, options.group, options.topic)
    left = checkpointed(options.checkpoint, options.topic)
    published = publisher.published()
    session = open_session(options)
    try:
        telemetry.send(
            SparkDriverStarted(
                at=time.time_ns(),
                source=options.pod_name,
                spark_version=pyspark.__version__,
                process_started_at=round(psutil.Process().create_time() * 1e9),
                checkpointed=_texts(left),
                published=_texts(published) or {},
            )
        )
        _warm_workers(session, options)
        # Without committed offsets a lag trigger has nothing to read: the start is published too.
        publisher.publish(publisher.starts() | (left or {}))
        listener = BatchListener(options, publisher, telemetry, lambda: executors(session))
        session.streams.addListener(listener)
        query = _start(session, options)
        log.info("query %s runs", query.id)
        while not stopping.wait(_LOOK_SECONDS):
            listener.raise_failure()
            if listener.has_heard and not is_ready.is_set():
                is_ready.set()  # after the first batch, which compiles the query's code
                log.info("ready")
            if not query.isActive:
                raise NotReady(f"the query ended: {query.exception()}")
        is_ready.clear()
        _end(query)
        left = checkpointed(options.checkpoint, options.topic)
        if left:
            publisher.publish(left)
    finally:
        telemetry.flush(_TELEMETRY_SECONDS)
        session.stop()
    return int(ExitCode.PASS)


def _texts(offsets: Mapping[int, int] | None) -> dict[str, int] | None:
    return None if offsets is None else {str(p): at for p, at in sorted(offsets.items())}


def _start(session: SparkSession, options: EnrichOptions) -> StreamingQuery:
    """Start the query; each batch ends when the ledger has all of its messages."""
    reader = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options.bootstrap_servers)
        .options(**spark_kafka_options(os.environ))
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
    )
    if options.max_messages_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", options.max_messages_per_trigger)

    def process(frame: DataFrame, batch: int) -> None:
        task = BatchTask(options, batch, options.concurrency // options.cores_per_worker)
        rows = frame.selectExpr(
            "partition", "offset", "value", "unix_millis(timestamp) AS planned_at_ms"
        )
        work = rows.mapInArrow(lambda batches: run_task(task, batches), TASK_SCHEMA)
        work.write.format("noop").mode("overwrite").save()

    return (
        reader.load()
        .writeStream.queryName("enrich")
        .foreachBatch(process)
        .option("checkpointLocation", options.checkpoint)
        .trigger(processingTime=f"{round(options.trigger_seconds * 1000)} milliseconds")
        .start()
    )


def _warm_workers(session: SparkSession, options: EnrichOptions) -> None:
    """Wait for the executors of the floor, and start their Python processes.

    :raises NotReady: the executors do not come.
    """
    cores = options.floor_workers * options.cores_per_worker
    if not cores:
        return
    give_up_at = time.monotonic() + _EXECUTORS_SECONDS
    while executors(session) < options.floor_workers:
        if time.monotonic() > give_up_at:
            raise NotReady(
                f"{executors(session)} executors of {options.floor_workers} after "
                f"{_EXECUTORS_SECONDS:g} s: look at the logs of the workers' pods"
            )
        time.sleep(_LOOK_SECONDS)  # the master tells nobody

    # The way of the stream's own tasks, with records that are there: the first task of an executor
    # loads Kafka's client and the Python side, which took 17 s on a busy machine of two cores.
    def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"pod": [warm_up(options)]})
        time.sleep(1.0)  # so that one process cannot take a second task

    records = (
        session.read.format("kafka")
        .option("kafka.bootstrap.servers", options.bootstrap_servers)
        .options(**spark_kafka_options(os.environ))
        .option("subscribe", options.telemetry_topic)
        # A task that waits for a second would be a reason for more executors.
        .option("minPartitions", cores if options.dynamic_allocation_min else 2 * cores)
        .load()
    )
    rows = records.select("value").mapInArrow(load, "pod string").collect()
    log.info("warm workers: %s", ", ".join(sorted({row["pod"] for row in rows})))


def executors(session: SparkSession) -> int:
    """Return how many executors are registered; the driver is none."""
    context = session.sparkContext._jsc.sc()  # noqa: SLF001 - PySpark has no public way to them
    return int(context.getExecutorMemoryStatus().size()) - 1


def _end(query: StreamingQuery) -> None:
    """Stop the query between two batches, if one ends soon."""
    give_up_at = time.monotonic() + _IDLE_SECONDS
    while query.isActive and time.monotonic() < give_up_at:
        if not query.status["isTriggerActive"]:
            break
        time.sleep(_LOOK_SECONDS)
    query.stop()
