"""Find records of the events topic that are not events of this run.

Consumers skip a stranger without an identity, and process one with it like any other record.
Both are in a separate class, so no field of a stranger is trusted.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lagbench_spark.run_facts import StreamPlan

_PRODUCER_ID = 0  # a run has one producer


def own_events(events: DataFrame, plan: StreamPlan) -> DataFrame:
    """Return the rows of ``schemas.EVENTS`` that the run's stream can hold."""
    return events.filter(_stranger(plan).isNull())


def foreign_events(events: DataFrame, plan: StreamPlan) -> DataFrame:
    """Return partition, offset, size_bytes and detail of the rows that the stream cannot hold."""
    reported = events.withColumn("detail", _stranger(plan)).filter(F.col("detail").isNotNull())
    return reported.select("partition", "offset", "size_bytes", "detail")


def work_on(processed: DataFrame, places: DataFrame, *, is_foreign: bool) -> DataFrame:
    """Return the rows of ``schemas.PROCESSED`` at these places of the log, or at all others."""
    how = "left_semi" if is_foreign else "left_anti"
    return processed.join(places.select("partition", "offset"), on=["partition", "offset"], how=how)


def _stranger(plan: StreamPlan) -> Column:
    """Return the reason why the row is not an event of the run; null: it may be one."""
    seq, planned = F.col("seq"), F.col("planned_offset_ns")
    is_beyond = (seq < 0) | _above(seq, None if plan.seqs is None else plan.seqs - 1)
    is_outside = (planned < 0) | _above(planned, plan.offset_ns)
    size = F.coalesce(F.col("size_bytes").cast("string"), F.lit("no"))
    nameless = F.concat(F.lit("a value of "), size, F.lit(" bytes, without the run's identity"))
    return (
        F.when(seq.isNull(), nameless)
        .when(F.col("producer_id") != _PRODUCER_ID, F.lit("of another producer"))
        .when(is_beyond, F.lit("of a seq beyond those produced"))
        .when(is_outside, F.lit("planned outside the stream"))
    )


def _above(number: Column, most: int | None) -> Column:
    return F.expr("false") if most is None else number > most
