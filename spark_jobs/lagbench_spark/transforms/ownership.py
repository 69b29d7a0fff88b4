"""Find the work of a former owner of a partition after the next owner had begun.

Stamps of two pods are compared within the bound of their clocks: inside it the order is in doubt.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

SPANS = "partition int, pod string, from_at bigint, until_at bigint, is_known boolean"
RIVALS = (
    "partition int, pod string, epoch bigint, next_pod string, next_began_at bigint,"
    " error_ns bigint"
)
_OWNER = ["partition", "pod"]


def zombies(
    processed: DataFrame, overdue: DataFrame, spans: DataFrame, rivals: DataFrame
) -> DataFrame:
    """Return the rows of ``schemas.PROCESSED`` done after a later owner began, with ``RIVALS``.

    ``processed`` are those of the blocks that ``overdue`` runs touch. Also is_certain: late by more
    than the possible error between the two clocks.
    """
    first_work = overdue.select(*_OWNER, "member_id", "first_work_at").distinct()
    suspects = processed.join(F.broadcast(first_work), on=[*_OWNER, "member_id"], how="inner")
    dated = _in_epoch(_in_span(suspects, spans, F.col("started_at"))).filter("is_known")
    judged = dated.join(F.broadcast(rivals), on=[*_OWNER, "epoch"], how="inner")
    late_by = _late_by(F.col("done_at"))
    is_certain = F.col("error_ns").isNotNull() & (late_by > _error())
    late = judged.withColumn("is_certain", is_certain).filter(late_by > -_error())
    return late.select(*processed.columns, "next_pod", "next_began_at", "is_certain")


def _late_by(done_at: Column) -> Column:
    return done_at - F.col("next_began_at")


def _error() -> Column:
    """Return the error between two clocks; 0 if one is not bounded: its stamps are used unchanged.

    Work that is late by exactly the bound is not late, as on one clock.
    """
    return F.coalesce("error_ns", F.lit(0))


def _in_span(work: DataFrame, spans: DataFrame, started_at: Column) -> DataFrame:
    """Add from_at and is_known of the span that holds ``started_at``; null: there is none."""
    span = F.broadcast(
        spans.select(
            F.col("partition").alias("span_partition"),
            F.col("pod").alias("span_pod"),
            "from_at",
            "until_at",
            "is_known",
        )
    )
    is_same_owner = (F.col("partition") == F.col("span_partition")) & (
        F.col("pod") == F.col("span_pod")
    )
    is_inside = (started_at >= F.col("from_at")) & (
        F.col("until_at").isNull() | (started_at < F.col("until_at"))
    )
    dated = work.join(span, on=is_same_owner & is_inside, how="left")
    return dated.select(*work.columns, "from_at", "is_known")


def _in_epoch(dated: DataFrame) -> DataFrame:
    """Turn the span of dated work into its epoch; work outside all gets ``first_work_at``."""
    return dated.withColumns(
        {
            "epoch": F.coalesce("from_at", "first_work_at"),
            "is_reported": F.col("from_at").isNotNull(),
            "is_known": F.coalesce("is_known", F.expr("true")),
        }
    ).drop("from_at")
