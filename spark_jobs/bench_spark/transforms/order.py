"""Messages that were begun after a later one of the same owner, or of the same key."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from bench_spark.transforms.blocks import TIME_BITS, block_of, touched

_EARLIER_RUNS = (Window.unboundedPreceding, -1)
# Strictly earlier instants: two messages begun in the same nanosecond have no order.
_EARLIER_STARTS = (Window.unboundedPreceding, -1)
_ROW = ["partition", "offset", "started_at", "ledger_partition", "ledger_offset"]


def disorder(runs: DataFrame) -> DataFrame:
    """Return the rows of ``WORK_RUNS`` where order may be broken, with what came before them.

    A message that was begun late and one that overtook it lie both in one region: of offsets
    (the run begins below ``furthest``, which was begun before it) or of time (the run begins
    before ``latest``, the last start in earlier runs).
    """
    by_start = Window.partitionBy("partition").orderBy("first_started_at", "first_offset")
    earlier = by_start.rowsBetween(*_EARLIER_RUNS)
    seen = runs.select(
        "partition",
        "first_offset",
        "first_started_at",
        F.max("last_offset").over(earlier).alias("furthest"),
        F.max("last_started_at").over(earlier).alias("latest"),
    )
    return seen.filter(_is_behind() | _is_parallel())


def reordered(processed: DataFrame, regions: DataFrame, excluded: DataFrame) -> DataFrame:
    """Return the rows of ``schemas.PROCESSED`` that came late, with overtaken_by (a pod).

    ``regions`` is the ``disorder``; ``excluded`` are rows that say nothing about order (repeats,
    unknown messages).
    """
    counted = _within(processed, regions).join(excluded.select(*_ROW), on=_ROW, how="left_anti")
    by_start = Window.orderBy("started_at").rangeBetween(*_EARLIER_STARTS)
    of_owner = by_start.partitionBy("partition", "pod")
    of_key = by_start.partitionBy("partition", "entity_id")
    seen = counted.select(
        "*",
        F.max("offset").over(of_owner).alias("owner_offset"),
        F.max(F.struct("seq", "pod")).over(of_key).alias("key_latest"),
    )
    is_late_for_owner = F.col("owner_offset") > F.col("offset")
    is_late_for_key = F.col("key_latest.seq") > F.col("seq")
    late = seen.filter(is_late_for_owner | is_late_for_key)
    overtaken_by = F.when(is_late_for_owner, F.col("pod")).otherwise(F.col("key_latest.pod"))
    return late.select(*processed.columns, overtaken_by.alias("overtaken_by"))


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
