"""Find seqs that the log holds more than once, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from lagbench.shared_with_spark import message_classes
from lagbench_spark.transforms.blocks import rows_in


def produced_twice(events: DataFrame) -> DataFrame:
    """Return the rows of ``schemas.EVENTS`` whose seq already has an earlier place in the log."""
    same_seq = Window.partitionBy("producer_id", "seq").orderBy("partition", "offset")
    ranked = events.withColumn("turn", F.row_number().over(same_seq))
    return ranked.filter(F.col("turn") > 1).drop("turn")


def not_in_log(
    events: DataFrame,
    blocks: DataFrame,
    produced: int,
    *,
    failed: Sequence[tuple[int, int]],
    unknown: Sequence[tuple[int, int]],
) -> DataFrame:
    """Return class and seq of produced seqs (0 to ``produced`` - 1) that are at no offset.

    ``events`` are those of the ``blocks`` of seqs.
    ``failed`` and ``unknown`` are ranges [first, last] of seqs whose delivery is known to have
    failed, or to have an unknown outcome.
    """
    session = events.sparkSession
    expected = session.range(produced).select(F.col("id").alias("seq"))
    in_doubt = rows_in(expected, blocks, "seq")
    missing = in_doubt.join(events.select("seq"), on="seq", how="left_anti")
    rows = [(*reported, message_classes.NOT_IN_LOG_FAILED) for reported in failed]
    rows += [(*reported, message_classes.NOT_IN_LOG_UNKNOWN) for reported in unknown]
    if not rows:
        return missing.select(F.lit(message_classes.NOT_IN_LOG).alias("class"), "seq")
    reported = F.broadcast(
        session.createDataFrame(rows, "first bigint, last bigint, outcome string")
    )
    is_reported = (F.col("seq") >= F.col("first")) & (F.col("seq") <= F.col("last"))
    outcomes = (
        missing.join(reported, on=is_reported, how="left")
        .groupBy("seq")
        .agg(F.min("outcome").alias("outcome"))
    )
    known = F.coalesce("outcome", F.lit(message_classes.NOT_IN_LOG))
    return outcomes.select(known.alias("class"), "seq")
