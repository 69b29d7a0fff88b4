"""Define the settings of a consumer on Spark, and the names of its helpers."""

from __future__ import annotations

import math

from pydantic import Field

from lagbench.core.scenario.flag import StrictModel

SPARK_MASTER = "spark-stream-master"
"""Deployment and Service. Not ``spark-master``: a Service of that name would give each pod a
variable SPARK_MASTER_PORT with a URL, which Spark takes for its port."""
SPARK_MASTER_PORT = 7077
SPARK_DRIVER = "spark-stream-driver"
LEAST_HEAP_MEBIBYTES = 450
"""Spark rejects an executor with less: 1.5 times its reserve of 300 MiB."""


class SparkFlags(StrictModel):
    """The settings that driver and workers get as flags of the same names."""

    trigger_seconds: float = Field(
        2.0, ge=0.1, le=3600, description="a micro-batch starts this long after the one before"
    )
    cores_per_worker: int = Field(
        1, ge=1, le=64, description="tasks at a time in one worker; each is one partition"
    )
    worker_memory_mebibytes: int = Field(
        512, ge=LEAST_HEAP_MEBIBYTES, le=65_536, description="heap of a worker's executor"
    )
    driver_memory_mebibytes: int = Field(
        640, ge=LEAST_HEAP_MEBIBYTES, le=65_536, description="heap of the driver"
    )
    max_messages_per_trigger: int | None = Field(
        None, ge=1, description="most messages in a batch; None: all that are there"
    )
    dynamic_allocation_min: int | None = Field(
        None,
        ge=1,
        le=64,
        description="fewest executors with Spark's dynamic allocation, which starts more on the "
        "workers that are there while tasks wait (spark.dynamicAllocation.minExecutors); "
        "None: an executor on each worker",
    )
    decommission: bool = Field(
        True,
        description="on SIGTERM a worker takes no new task and ends its own first "
        "(spark.decommission.enabled); off: it just leaves",
    )


PYTHON_SIDE_MEBIBYTES = 160
"""Of one task's Python process with its libraries; 120 to 175 measured."""
JVM_SIDE_MEBIBYTES = 350
"""Of an executor beside its heap, of the worker's own JVM and of the pod's program."""
DRIVER_SIDE_MEBIBYTES = 350
"""Of the driver beside its heap: Python and the rest of the JVM."""
MASTER_MEBIBYTES = 256


def worker_mebibytes(spark: SparkFlags) -> int:
    """Return the memory of one worker's pod: two JVMs, and a Python process for each task."""
    python = PYTHON_SIDE_MEBIBYTES * (spark.cores_per_worker + 1)  # and the one that forks them
    return spark.worker_memory_mebibytes + JVM_SIDE_MEBIBYTES + python


BATCH_OVERHEAD_SECONDS = 0.6
"""Of a micro-batch without messages: planning, two writes to the checkpoint, the tasks' start.
An estimate: no run on an idle machine has measured it."""


def batch_seconds(trigger_seconds: float, rate: float, capacity: float) -> float:
    """Return the time of a batch at an even ``rate`` below the workers' ``capacity``."""
    if rate >= capacity:
        return math.inf
    within = BATCH_OVERHEAD_SECONDS + rate * trigger_seconds / capacity
    if within <= trigger_seconds:
        return within
    return BATCH_OVERHEAD_SECONDS / (1 - rate / capacity)


def published_lag_seconds(trigger_seconds: float, rate: float, capacity: float) -> float:
    """Return how many seconds of traffic the published lag shows at the top of its saw."""
    took = batch_seconds(trigger_seconds, rate, capacity)
    return took + max(trigger_seconds, took)


class SparkConsumer(SparkFlags):
    """The settings of consumer.kind spark."""
