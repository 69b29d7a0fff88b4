"""Telemetry of a consumer on Spark: its batches and tasks, and the offsets that it publishes."""

from __future__ import annotations

from lagbench.core.telemetry.record import Record


class SparkDriverStarted(Record, tag="spark_driver_started"):
    """The driver is about to start its query.

    Both are next offsets by partition (key: decimal string). ``checkpointed``: where the query will
    continue; None: the checkpoint is new. ``published``: what the group had before; partitions
    without an offset are left out.
    """

    spark_version: str
    process_started_at: int
    checkpointed: dict[str, int] | None
    published: dict[str, int]


class SparkBatch(Record, tag="spark_batch"):
    """A micro-batch is in the checkpoint; ``source`` is the driver's pod."""

    batch: int
    started_at: int
    rows: int
    batch_seconds: float
    trigger_seconds: float
    input_rows_per_second: float
    processed_rows_per_second: float
    executors: int


class SparkTask(Record, tag="spark_task"):
    """A task ended, its messages are in the ledger; ``source`` is the worker's pod."""

    batch: int
    partition: int
    attempt: int  # 0: the first one
    started_at: int
    rows: int
    first_offset: int
    last_offset: int


class OffsetsPublished(Record, tag="offsets_published"):
    """The group has the end offsets of a batch: next offset to read, by partition.

    ``delay_seconds``: since the batch's end; None: nothing new, published again while idle.
    """

    batch: int | None
    offsets: dict[str, int]
    delay_seconds: float | None
