"""Messages that were begun after a later one of the same owner, or of the same key."""

from __future__ import annotations

from bench_spark.transforms.blocks import TIME_BITS, block_of, touched
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_EARLIER_RUNS = (Window.unboundedPreceding, -1)
# Strictly earlier instants: two messages begun in the same nanosecond have no order.
_EARLIER_STARTS = (Window.unboundedPreceding, -1)
_OFFSET, _TIME = "offset_block", "time_block"
_ROW = ["partition", "offset", "started_at", "ledger_partition", "ledger_offset"]


def disorder(runs: DataFrame) -> DataFrame:
    """Return partition, axis, block where order may be broken, in rows of ``WORK_RUNS``.

    A message that was begun late and one that overtook it lie both in the blocks of one region:
    of offsets (a run begins below what was begun before it) or of time (runs began in parallel).
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
    behind = seen.filter(F.col("furthest") >= F.col("first_offset"))
    parallel = seen.filter(F.col("latest") > F.col("first_started_at"))
    offsets = touched(behind, F.col("first_offset"), F.col("furthest"))
    instants = touched(parallel, F.col("first_started_at"), F.col("latest"), TIME_BITS)
    return offsets.select("partition", F.lit(_OFFSET).alias("axis"), "block").union(
        instants.select("partition", F.lit(_TIME).alias("axis"), "block")
    )


def reordered(processed: DataFrame, blocks: DataFrame, excluded: DataFrame) -> DataFrame:
    """Return the rows of ``schemas.PROCESSED`` that came late, with overtaken_by (a pod).

    ``blocks`` is the ``disorder``; ``excluded`` are rows that say nothing about order (repeats,
    unknown messages).
    """
    counted = _within(processed, blocks).join(excluded.select(*_ROW), on=_ROW, how="left_anti")
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


def _within(processed: DataFrame, disorder_blocks: DataFrame) -> DataFrame:
    """Return the rows that lie in a block of offsets or in a block of time."""
    located = processed.select(
        "*",
        block_of(F.col("offset")).alias(_OFFSET),
        block_of(F.col("started_at"), TIME_BITS).alias(_TIME),
    )
    for axis in (_OFFSET, _TIME):
        marked = disorder_blocks.filter(F.col("axis") == axis).select(
            "partition", F.col("block").alias(axis), F.lit(1).alias(f"in_{axis}")
        )
        located = located.join(F.broadcast(marked), on=["partition", axis], how="left")
    is_inside = F.coalesce(f"in_{_OFFSET}", f"in_{_TIME}").isNotNull()
    return located.filter(is_inside).select(*processed.columns)
