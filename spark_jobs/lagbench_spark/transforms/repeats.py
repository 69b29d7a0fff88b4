"""Find processings beyond the first of the same message."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from lagbench_spark.transforms.blocks import rows_in, touched

_BEFORE = (Window.unboundedPreceding, -1)


def overlaps(runs: DataFrame) -> DataFrame:
    """Return partition, from_offset, to_offset: every offset that two of ``WORK_RUNS`` share.

    In the order of first offsets, a run shares with an earlier one all offsets up to the furthest
    so far.
    """
    by_offset = Window.partitionBy("partition").orderBy("first_offset").rowsBetween(*_BEFORE)
    furthest = runs.withColumn("furthest", F.max("last_offset").over(by_offset))
    shared = furthest.filter(F.col("furthest") >= F.col("first_offset"))
    return shared.select(
        "partition",
        F.col("first_offset").alias("from_offset"),
        F.least("furthest", "last_offset").alias("to_offset"),
    )


def repeats(processed: DataFrame, shared: DataFrame) -> DataFrame:
    """Return the rows of ``schemas.PROCESSED`` that repeat an earlier processing, with that one.

    ``shared`` are the ``overlaps``. The processing that was done first counts; it is in
    the columns first_pod and first_done_at.
    """
    same_message = Window.partitionBy("partition", "offset", "seq")
    by_end = same_message.orderBy("done_at", "started_at", "ledger_partition", "ledger_offset")
    blocks = touched(shared, F.col("from_offset"), F.col("to_offset"))
    ranked = rows_in(processed, blocks, "offset").select(
        "*",
        F.row_number().over(by_end).alias("turn"),
        F.first("pod").over(by_end).alias("first_pod"),
        F.first("done_at").over(by_end).alias("first_done_at"),
    )
    return ranked.filter(F.col("turn") > 1).drop("turn")
