"""Find messages that were begun after a later one of the same owner, or of the same key.

Starts of two pods are compared within the bound of their clocks: inside it the order is in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from lagbench_spark.transforms.blocks import TIME_BITS, block_of, touched

ROW = ["partition", "offset", "started_at", "ledger_partition", "ledger_offset"]


def reordered(
    counted: DataFrame,
    offsets: DataFrame,
    instants: DataFrame,
    *,
    slack_ns: int,
    unbounded_pods: Sequence[str],
) -> DataFrame:
    """Return the rows of ``schemas.PROCESSED`` that came late, with overtaken_by and is_certain.

    ``counted`` are without rows that say nothing about order (repeats, unknown messages); only
    those in the blocks of ``offsets`` and ``instants`` count. Two messages begun in the same
    nanosecond have no order. Another pod's start is certainly earlier if it is so by more than
    ``slack_ns`` and both clocks are bounded.
    """
    by_start = Window.orderBy("started_at")
    before = (Window.unboundedPreceding, -1)
    of_owner = by_start.rangeBetween(*before).partitionBy("partition", "pod")
    of_key = by_start.partitionBy("partition", "entity_id")
    latest = F.max(F.struct("seq", "pod"))
    seen = _within(counted, offsets, instants).select(
        "*",
        F.max("offset").over(of_owner).alias("owner_offset"),
        latest.over(of_key.rangeBetween(before[0], -1 - slack_ns)).alias("surely"),
        latest.over(of_key.rangeBetween(before[0], slack_ns - 1)).alias("perhaps"),
    )
    is_late_for_owner = F.col("owner_offset") > F.col("offset")
    is_surely_late = F.col("surely.seq") > F.col("seq")
    overtaken_by = (
        F.when(is_late_for_owner, F.col("pod"))
        .when(is_surely_late, F.col("surely.pod"))
        .otherwise(F.col("perhaps.pod"))
    )
    is_late = is_late_for_owner | is_surely_late | (F.col("perhaps.seq") > F.col("seq"))
    late = seen.filter(is_late).withColumn("overtaken_by", overtaken_by)
    are_bounded = ~F.col("pod").isin(*unbounded_pods) & ~F.col("overtaken_by").isin(*unbounded_pods)
    is_certain = is_late_for_owner | (is_surely_late & are_bounded)
    return late.withColumn("is_certain", is_certain).select(
        *counted.columns, "overtaken_by", "is_certain"
    )


def region_blocks(disorder: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the blocks of offsets and those of time that regions of a ``disorder`` touch."""
    is_behind = pc.greater_equal(disorder["furthest"], disorder["first_offset"])
    is_parallel = pc.greater(disorder["latest"], disorder["first_started_at"])
    return (
        touched(disorder.filter(is_behind), "first_offset", "furthest"),
        touched(disorder.filter(is_parallel), "first_started_at", "latest", TIME_BITS),
    )


def _within(processed: DataFrame, offsets: DataFrame, instants: DataFrame) -> DataFrame:
    """Return the rows in one of the blocks of offsets or of time."""
    located = processed.select(
        "*",
        block_of(F.col("offset")).alias("offset_block"),
        block_of(F.col("started_at"), TIME_BITS).alias("time_block"),
    )
    for axis, blocks in (("offset_block", offsets), ("time_block", instants)):
        marked = blocks.select(
            "partition", F.col("block").alias(axis), F.lit(1).alias(f"in_{axis}")
        )
        located = located.join(F.broadcast(marked), on=["partition", axis], how="left")
    is_inside = F.coalesce("in_offset_block", "in_time_block").isNotNull()
    return located.filter(is_inside).select(*processed.columns)
