"""Seqs that the log holds more than once, or not at all."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from bench_spark import message_classes
from bench_spark.transforms.blocks import rows_in


def produced_twice(events: DataFrame, blocks: DataFrame) -> DataFrame:
    """Return the rows of ``schemas.EVENTS`` whose seq already has an earlier place in the log."""
    same_seq = Window.partitionBy("producer_id", "seq").orderBy("partition", "offset")
    suspects = rows_in(events, blocks, "seq")
    ranked = suspects.withColumn("turn", F.row_number().over(same_seq))
    return ranked.filter(F.col("turn") > 1).drop("turn")


def not_in_log(events: DataFrame, blocks: DataFrame, produced: int) -> DataFrame:
    """Return class and seq of what was produced (0 to ``produced`` - 1) but is at no offset."""
    session = events.sparkSession
    expected = session.range(produced).select(F.col("id").alias("seq"))
    in_doubt = rows_in(expected, blocks, "seq")
    present = rows_in(events, blocks, "seq").select("seq")
    missing = in_doubt.join(present, on="seq", how="left_anti")
    return missing.select(F.lit(message_classes.NOT_IN_LOG).alias("class"), "seq")
