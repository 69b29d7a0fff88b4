"""Open the Spark session of a job, look at its executors, and report how far it is."""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext, cloudpickle
from pyspark.sql import SparkSession

import lagbench_spark
from lagbench.core import clocks, ownership
from lagbench.shared_with_spark.spark_job import (
    AUTHENTICATED,
    PROGRESS_FILE,
    SECRET_SETTING,
    SECRET_VARIABLE,
    STEPS,
    each_second,
)
from lagbench_spark.run_folder import RunFolder, UnreadableRun

# Rows of one Arrow batch to Python: numpy's cost per call is negligible above 10,000 rows.
_ARROW_ROWS = 65_536
# To bound a batch by bytes, Spark adds up its columns after each row: a quarter of a large run's
# processor time. Only where a row may be large (a ledger record: about 50 KB) is it worth that.
_ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_LARGE_ROWS_BYTES = 16 * 1024 * 1024
_NO_LIMIT = 2**31 - 1
# About 2 million rows a task: enough tasks to keep all cores busy until the end of a scan.
_SCAN_BYTES = 16 * 1024 * 1024
# One shuffle partition per million messages keeps a task's sort in memory at 1 GiB heaps.
_MESSAGES_PER_SHUFFLE_PARTITION = 1_000_000
_MOST_SHUFFLE_PARTITIONS = 200
_FEWEST_SHUFFLE_PARTITIONS = 2
_MARKER = "seen-by-executors.json"
# Tasks are assigned in turn: twice as many tasks as cores reach every registered executor.
_TASKS_PER_CORE = 2


def ship_by_value() -> None:
    """Have Python workers get our code with each task: they may not see this folder."""
    for package in (lagbench_spark, ownership, clocks):
        cloudpickle.register_pickle_by_value(package)


def open_session(name: str) -> SparkSession:
    """Return the session named ``name``; spark-submit chooses the master."""
    ship_by_value()
    SparkContext._ensure_initialized()  # noqa: SLF001 - or SparkConf lacks what was submitted
    master = SparkConf().get("spark.master", "")
    return (
        SparkSession.builder.appName(name)
        .config(map=authentication(master, os.environ))
        .config("spark.log.level", "WARN")  # from the first line on; a call comes too late for 60
        .config("spark.ui.enabled", "false")
        # The default of 10 s logs a stack trace when a heartbeat meets the end of a short job.
        .config("spark.executor.heartbeatInterval", "60s")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", _FEWEST_SHUFFLE_PARTITIONS)
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", _ARROW_ROWS)
        .config(_ARROW_BYTES, _NO_LIMIT)
        .config("spark.sql.files.maxPartitionBytes", _SCAN_BYTES)
        .getOrCreate()
    )


def authentication(master: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what keeps other users' messages out of the driver and its executors.

    With a master ``local`` or ``k8s`` Spark draws the secret. A standalone cluster has its own.
    """
    secret = environment.get(SECRET_VARIABLE)
    if secret:
        return {**AUTHENTICATED, SECRET_SETTING: secret}
    return {} if master.startswith("spark://") else AUTHENTICATED


def with_large_rows(session: SparkSession) -> SparkSession:
    """Return a session on the same Spark whose batches to Python are also bounded by bytes."""
    other = session.newSession()
    other.conf.set(_ARROW_BYTES, _LARGE_ROWS_BYTES)
    return other


def size_shuffles(session: SparkSession, messages: int) -> None:
    """Set the number of shuffle partitions for a run of ``messages``."""
    wanted = messages // _MESSAGES_PER_SHUFFLE_PARTITION
    partitions = min(max(wanted, _FEWEST_SHUFFLE_PARTITIONS), _MOST_SHUFFLE_PARTITIONS)
    session.conf.set("spark.sql.shuffle.partitions", partitions)


def require_shared(folder: RunFolder) -> None:
    """Let the executors read the driver's file, unless they are one process or use a store.

    An executor without the shared disk writes its part of a table to its own disk, the driver
    commits only the parts that it sees, and Spark reports a success. Observed as an empty table
    without any message.

    :raises UnreadableRun: an executor does not see the run folder.
    """
    context = folder.session.sparkContext
    parts = urlsplit(folder.location)
    if context.master.startswith("local") or parts.scheme not in {"", "file"}:
        return
    key = uuid.uuid4().hex
    folder.write_json(_MARKER, {"key": key})
    marker = f"{parts.path.rstrip('/')}/{_MARKER}"

    def blind_host(_: Iterator[int]) -> Iterator[str]:
        try:
            is_seen = json.loads(Path(marker).read_text(encoding="utf-8"))["key"] == key
        except (OSError, ValueError):
            is_seen = False
        return iter([] if is_seen else [socket.gethostname()])

    tasks = _TASKS_PER_CORE * context.defaultParallelism
    try:
        blind = context.parallelize(range(tasks), tasks).mapPartitions(blind_host).collect()
    finally:
        folder.remove(_MARKER)
    if blind:
        raise UnreadableRun(
            f"executors on {', '.join(sorted(set(blind)))} cannot read {folder.location}, which "
            "the driver wrote; the root of the runs must be one file system at the same path on "
            "the driver and on all workers, or s3a://BUCKET/PREFIX"
        )


def begin(folder: RunFolder, step: str) -> None:
    """Name the Spark jobs that follow, here and in Spark's own pages."""
    folder.session.sparkContext.setJobGroup(_group(folder, step), STEPS[step])


@contextmanager
def reported(folder: RunFolder) -> Iterator[None]:
    """Say in the run folder, during the block, which step the job is at, and its tasks done."""
    last: list[dict[str, Any] | None] = [None]

    def report() -> None:
        now = _progress(folder)
        if now != last[0]:
            last[0] = now
            folder.write_json(PROGRESS_FILE, now or {})

    try:
        with each_second(report):
            yield
    finally:
        folder.remove(PROGRESS_FILE)


def _group(folder: RunFolder, step: str) -> str:
    return f"{folder.location} {step}"  # the job is warmed up in another folder


def _progress(folder: RunFolder) -> dict[str, Any] | None:
    tracker = folder.session.sparkContext.statusTracker()
    for step in reversed(STEPS):
        jobs = tracker.getJobIdsForGroup(_group(folder, step))
        job = tracker.getJobInfo(max(jobs)) if jobs else None
        if job is not None:
            stages = [tracker.getStageInfo(stage) for stage in job.stageIds]
            known = [stage for stage in stages if stage is not None]
            done = sum(stage.numCompletedTasks for stage in known)
            return {"step": step, "done": done, "of": sum(stage.numTasks for stage in known)}
    return None
