"""Find handovers of a partition between pods, and the gap between the two."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_NANOSECONDS = 1_000_000_000


def partition_gaps(runs: DataFrame) -> DataFrame:
    """Turn rows of ``WORK_RUNS`` into rows of ``schemas.PARTITION_GAPS``."""
    by_start = Window.partitionBy("partition").orderBy("first_started_at", "first_offset")
    before = F.lag("pod").over(by_start)
    is_new = before.isNull() | (before != F.col("pod"))
    marked = runs.withColumn("is_new", is_new.cast("int"))
    numbered = marked.withColumn("stint", F.sum("is_new").over(by_start))
    stints = numbered.groupBy("partition", "stint", "pod").agg(
        F.min("first_done_at").alias("next_done_at"), F.max("last_done_at").alias("last_done_at")
    )
    in_turn = Window.partitionBy("partition").orderBy("stint")
    handed = stints.select(
        "partition",
        F.lag("pod").over(in_turn).alias("from_pod"),
        F.col("pod").alias("to_pod"),
        F.lag("last_done_at").over(in_turn).alias("last_done_at"),
        "next_done_at",
    )
    gap = (F.col("next_done_at") - F.col("last_done_at")) / _NANOSECONDS
    return handed.filter(F.col("from_pod").isNotNull()).withColumn("gap_seconds", gap)
