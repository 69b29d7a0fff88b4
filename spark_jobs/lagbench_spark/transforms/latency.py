"""Compute the latency of messages, second by second."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lagbench_spark.transforms.rates import bin_of

_NANOSECONDS = 1_000_000_000
_RANKS = [0.5, 0.95, 0.99]
# Exact up to 10,000 messages in a bin, else off by at most one rank in 10,000.
_ACCURACY = 10_000


def latency(processed: DataFrame) -> DataFrame:
    """Turn rows of ``schemas.PROCESSED`` into rows of ``schemas.LATENCY``.

    Rows without a planned instant have no latency.
    """
    at = bin_of(F.col("done_at"), _NANOSECONDS).alias("at")
    late = F.try_subtract("done_at", "planned_at").alias("late")
    bins = processed.filter(F.col("planned_at").isNotNull()).select(at, late).groupBy("at")
    measured = bins.agg(
        F.count(F.lit(1)).alias("count"),
        F.percentile_approx("late", _RANKS, _ACCURACY).alias("ranks"),
        F.max("late").alias("max"),
    )
    return measured.select(
        "at",
        "count",
        (F.col("ranks")[0] / _NANOSECONDS).alias("p50_seconds"),
        (F.col("ranks")[1] / _NANOSECONDS).alias("p95_seconds"),
        (F.col("ranks")[2] / _NANOSECONDS).alias("p99_seconds"),
        (F.col("max") / _NANOSECONDS).alias("max_seconds"),
    )
