"""Find processings beyond the first of the same message."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812


def repeats_of(processed: DataFrame) -> DataFrame:
    """Return the rows of ``schemas.PROCESSED`` that repeat an earlier processing, with that one.

    The processing that was done first counts; it is in the columns first_pod and first_done_at.
    """
    same_message = Window.partitionBy("partition", "offset", "seq")
    by_end = same_message.orderBy("done_at", "started_at", "ledger_partition", "ledger_offset")
    ranked = processed.select(
        "*",
        F.row_number().over(by_end).alias("turn"),
        F.first("pod").over(by_end).alias("first_pod"),
        F.first("done_at").over(by_end).alias("first_done_at"),
    )
    return ranked.filter(F.col("turn") > 1).drop("turn")
