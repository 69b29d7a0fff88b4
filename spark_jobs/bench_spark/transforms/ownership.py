"""Who owned a partition when, and what a former owner still did after the next had begun.

An epoch is one ownership: it begins with an assignment that the pod reported. Work from before
any report belongs to one epoch that begins with the pod's first work on the partition.
"""

from __future__ import annotations

from bench_spark.transforms.blocks import rows_in, touched
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_OWNER = ["partition", "pod"]


def assignment_spans(assignments: DataFrame) -> DataFrame:
    """Turn partition, pod, at into partition, pod, from_at, until_at (null: still owned)."""
    by_time = Window.partitionBy(*_OWNER).orderBy("at")
    return assignments.select(
        *_OWNER, F.col("at").alias("from_at"), F.lead("at").over(by_time).alias("until_at")
    )


def with_epochs(runs: DataFrame, spans: DataFrame) -> DataFrame:
    """Add to rows of ``WORK_RUNS``: first_work_at of the member and epoch (unix ns)."""
    of_member = Window.partitionBy(*_OWNER, "member_id")
    known = runs.withColumn("first_work_at", F.min("first_started_at").over(of_member))
    return _in_epoch(known, spans, F.col("first_started_at"))


def rivals(epochs: DataFrame, spans: DataFrame) -> DataFrame:
    """Return partition, pod, epoch, next_pod, next_began_at: the first work of a later owner.

    ``epochs`` are runs ``with_epochs``. An epoch without a later owner is absent.
    """
    begun = epochs.groupBy(*_OWNER, "epoch").agg(F.min("first_started_at").alias("began_at"))
    reported = spans.select(*_OWNER, F.col("from_at").alias("epoch"))
    every = begun.select(*_OWNER, "epoch").union(reported).distinct()
    later = begun.select(
        "partition",
        F.col("pod").alias("next_pod"),
        F.col("epoch").alias("next_epoch"),
        F.col("began_at"),
    )
    is_later = F.col("next_epoch") > F.col("epoch")
    is_other = F.col("next_pod") != F.col("pod")
    pairs = every.join(F.broadcast(later), on="partition", how="inner").filter(is_later & is_other)
    first = F.min(F.struct("began_at", "next_pod")).alias("first")
    return (
        pairs.groupBy(*_OWNER, "epoch")
        .agg(first)
        .select(
            *_OWNER,
            "epoch",
            F.col("first.next_pod").alias("next_pod"),
            F.col("first.began_at").alias("next_began_at"),
        )
    )


def overdue_runs(epochs: DataFrame, later_owners: DataFrame) -> DataFrame:
    """Return the runs ``with_epochs`` that end after a later owner (``rivals``) had begun."""
    owned = epochs.join(F.broadcast(later_owners), on=[*_OWNER, "epoch"], how="inner")
    overdue = owned.filter(F.col("last_done_at") > F.col("next_began_at"))
    return overdue.select(*epochs.columns)


def zombies(
    processed: DataFrame, overdue: DataFrame, spans: DataFrame, later_owners: DataFrame
) -> DataFrame:
    """Return the rows of ``schemas.PROCESSED`` done after a later owner began, with next_pod."""
    blocks = touched(overdue, F.col("first_offset"), F.col("last_offset"))
    first_work = overdue.select(*_OWNER, "member_id", "first_work_at").distinct()
    suspects = rows_in(processed, blocks, "offset").join(
        F.broadcast(first_work), on=[*_OWNER, "member_id"], how="inner"
    )
    dated = _in_epoch(suspects, spans, F.col("started_at"))
    judged = dated.join(F.broadcast(later_owners), on=[*_OWNER, "epoch"], how="inner")
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
