"""Define the settings of a consumer on Spark, and the names of its helpers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

SPARK_MASTER = "spark-stream-master"
"""Deployment and Service. Not ``spark-master``: a Service of that name would give each pod a
variable SPARK_MASTER_PORT with a URL, which Spark takes for its port."""
SPARK_DRIVER = "spark-stream-driver"
LEAST_HEAP_MEBIBYTES = 450
"""Spark refuses an executor with less: 1.5 times its reserve of 300 MiB."""


class SparkFlags(BaseModel):
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
    decommission: bool = Field(
        True,
        description="on SIGTERM a worker takes no new task and ends its own first "
        "(spark.decommission.enabled); off: it just leaves",
    )


class SparkConsumer(SparkFlags):
    """The settings of consumer.kind spark."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
