"""Find messages that were begun after a later one of the same owner, or of the same key.

Starts of two pods are compared within the bound of their clocks: inside it the order is in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from lagbench_spark.transforms.blocks import TIME_BITS, block_of, touched

_EARLIER_RUNS = (Window.unboundedPreceding, -1)
ROW = ["partition", "offset", "started_at", "ledger_partition", "ledger_offset"]


def disorder(runs: DataFrame, slack_ns: int) -> DataFrame:
    """Return the rows of ``WORK_RUNS`` where the order may be broken, with the earlier extremes.

    A late message and one that overtook it are both in one region: of offsets
    (the run begins below ``furthest``, which was begun before it) or of time (the run begins
    before ``latest``, the last start in earlier runs, plus the bound of two clocks).
    """
    by_start = Window.partitionBy("partition").orderBy("first_started_at", "first_offset")
    earlier = by_start.rowsBetween(*_EARLIER_RUNS)
    seen = runs.select(
        "partition",
        "first_offset",
        "first_started_at",
        F.max("last_offset").over(earlier).alias("furthest"),
        (F.max("last_started_at").over(earlier) + slack_ns).alias("latest"),
    )
    return seen.filter(_is_behind() | _is_parallel())


def reordered(
    processed: DataFrame,
    regions: DataFrame,
    excluded: DataFrame,
    *,
    slack_ns: int,
    unbounded_pods: Sequence[str],
) -> DataFrame:
    """Return the rows of ``schemas.PROCESSED`` that came late, with overtaken_by and is_certain.

    ``regions`` is the ``disorder``; ``excluded`` are rows that say nothing about order (repeats,
    unknown messages). Two messages begun in the same nanosecond have no order. Another pod's start
    is certainly earlier if it is so by more than ``slack_ns`` and both clocks are bounded.
    """
    counted = _within(processed, regions).join(excluded.select(*ROW), on=ROW, how="left_anti")
    by_start = Window.orderBy("started_at")
    before = (Window.unboundedPreceding, -1)
    of_owner = by_start.rangeBetween(*before).partitionBy("partition", "pod")
    of_key = by_start.partitionBy("partition", "entity_id")
    latest = F.max(F.struct("seq", "pod"))
    seen = counted.select(
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
        *processed.columns, "overtaken_by", "is_certain"
    )


def _within(processed: DataFrame, regions: DataFrame) -> DataFrame:
    """Return the rows in a block of offsets or of time that a region of the disorder touches."""
    behind, parallel = regions.filter(_is_behind()), regions.filter(_is_parallel())
    offsets = touched(behind, F.col("first_offset"), F.col("furthest"))
    instants = touched(parallel, F.col("first_started_at"), F.col("latest"), TIME_BITS)
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


def _is_behind() -> Column:
    return F.col("furthest") >= F.col("first_offset")


def _is_parallel() -> Column:
    return F.col("latest") > F.col("first_started_at")
