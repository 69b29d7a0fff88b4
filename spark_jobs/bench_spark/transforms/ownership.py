"""What a former owner of a partition still did after the next one had begun."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from bench_spark.transforms.blocks import rows_in, touched

SPANS = "partition int, pod string, from_at bigint, until_at bigint"
RIVALS = "partition int, pod string, epoch bigint, next_pod string, next_began_at bigint"
_OWNER = ["partition", "pod"]


def with_epochs(runs: DataFrame, spans: DataFrame) -> DataFrame:
    """Add first_work_at (of the member) and epoch to rows of ``WORK_RUNS``; spans: ``SPANS``."""
    of_member = Window.partitionBy(*_OWNER, "member_id")
    known = runs.withColumn("first_work_at", F.min("first_started_at").over(of_member))
    return _in_epoch(known, spans, F.col("first_started_at"))


def epochs_of(dated_runs: DataFrame) -> DataFrame:
    """Return partition, pod, epoch, began_at, processed of runs ``with_epochs``."""
    length = F.col("last_offset") - F.col("first_offset") + 1
    return dated_runs.groupBy(*_OWNER, "epoch").agg(
        F.min("first_started_at").alias("began_at"), F.sum(length).alias("processed")
    )


def overdue_runs(dated_runs: DataFrame, rivals: DataFrame) -> DataFrame:
    """Return the runs ``with_epochs`` that end after a later owner (``RIVALS``) had begun."""
    owned = dated_runs.join(F.broadcast(rivals), on=[*_OWNER, "epoch"], how="inner")
    return owned.filter(F.col("last_done_at") > F.col("next_began_at")).select(*dated_runs.columns)


def zombies(
    processed: DataFrame, overdue: DataFrame, spans: DataFrame, rivals: DataFrame
) -> DataFrame:
    """Return the rows of ``schemas.PROCESSED`` done after a later owner began, with ``RIVALS``."""
    blocks = touched(overdue, F.col("first_offset"), F.col("last_offset"))
    first_work = overdue.select(*_OWNER, "member_id", "first_work_at").distinct()
    suspects = rows_in(processed, blocks, "offset").join(
        F.broadcast(first_work), on=[*_OWNER, "member_id"], how="inner"
    )
    dated = _in_epoch(suspects, spans, F.col("started_at"))
    judged = dated.join(F.broadcast(rivals), on=[*_OWNER, "epoch"], how="inner")
    late = judged.filter(F.col("done_at") > F.col("next_began_at"))
    return late.select(*processed.columns, "next_pod", "next_began_at")


def _in_epoch(work: DataFrame, spans: DataFrame, started_at: Column) -> DataFrame:
    """Add the epoch: the start of the span that holds ``started_at``, else first_work_at."""
    span = F.broadcast(
        spans.select(
            F.col("partition").alias("span_partition"),
            F.col("pod").alias("span_pod"),
            "from_at",
            "until_at",
        )
    )
    is_same_owner = (F.col("partition") == F.col("span_partition")) & (
        F.col("pod") == F.col("span_pod")
    )
    is_inside = (started_at >= F.col("from_at")) & (
        F.col("until_at").isNull() | (started_at < F.col("until_at"))
    )
    dated = work.join(span, on=is_same_owner & is_inside, how="left")
    return dated.select(*work.columns, F.coalesce("from_at", "first_work_at").alias("epoch"))
