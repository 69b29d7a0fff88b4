"""Open the Spark session of every job, with settings small enough for a 90-second run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pyspark import SparkConf, SparkContext, cloudpickle
from pyspark.sql import SparkSession

import lagbench_spark
from lagbench.core import ownership
from lagbench.shared_with_spark.spark_authentication import (
    AUTHENTICATED,
    SECRET_SETTING,
    SECRET_VARIABLE,
)

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


def open_session(name: str) -> SparkSession:
    """Return the session named ``name``; spark-submit chooses the master."""
    # Python workers may not see this folder, nor have what the core needs: ship by value.
    for package in (lagbench_spark, ownership):
        cloudpickle.register_pickle_by_value(package)
    SparkContext._ensure_initialized()  # noqa: SLF001 - or SparkConf lacks what was submitted
    master = SparkConf().get("spark.master", "")
    session = (
        SparkSession.builder.appName(name)
        .config(map=authentication(master, os.environ))
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
    session.sparkContext.setLogLevel("WARN")
    return session


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
