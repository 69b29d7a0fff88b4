"""Count offered and processed messages over time, in bins."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

BIN_NS = 100_000_000
POD_BIN_NS = 1_000_000_000


def bin_of(instant: Column, width_ns: int) -> Column:
    """Return the start of the bin that holds an instant."""
    return instant - F.pmod(instant, F.lit(width_ns))


def offered_bins(events: DataFrame) -> DataFrame:
    """Return at, offered per 100 ms of rows of ``schemas.EVENTS``.

    For streams of unknown start the record's timestamp is the planned instant (to 1 ms).
    """
    at = bin_of(F.coalesce("planned_at", "logged_at"), BIN_NS).alias("at")
    return events.groupBy(at).agg(F.count(F.lit(1)).alias("offered"))


def pod_bins(processed: DataFrame) -> DataFrame:
    """Return at, pod, processings per 100 ms of rows of ``schemas.PROCESSED``."""
    at = bin_of(F.col("done_at"), BIN_NS).alias("at")
    return processed.groupBy(at, "pod").agg(F.count(F.lit(1)).alias("processings"))


def within(rows: DataFrame, window: tuple[int, int] | None) -> DataFrame:
    """Return the bins inside the run; a stamp far outside would make endless bins."""
    if window is None:
        return rows.limit(0)
    first, last = window
    return rows.filter((F.col("at") > first) & (F.col("at") < last - POD_BIN_NS))


def timeline(offered: DataFrame, by_pod: DataFrame, repeats: DataFrame | None) -> DataFrame:
    """Return rows of ``schemas.TIMELINE``, one for every bin from the first to the last.

    A bin without work inside the run is known to have none, so its value is zero.
    """
    nothing = F.lit(0)
    every = offered.select("at", "offered", nothing.alias("done"), nothing.alias("again")).union(
        by_pod.select("at", nothing, "processings", nothing)
    )
    if repeats is not None:
        again_at = bin_of(F.col("done_at"), BIN_NS)
        every = every.union(repeats.select(again_at, nothing, nothing, F.lit(1)))
    bounds = every.agg(F.min("at").alias("first"), F.max("at").alias("last"))
    bins = bounds.filter(F.col("first").isNotNull()).select(
        F.explode(F.sequence("first", "last", F.lit(BIN_NS))).alias("at")
    )
    empty = bins.select("at", nothing, nothing, nothing)
    sums = (F.sum(name).alias(name) for name in ("offered", "done", "again"))
    summed = every.union(empty).groupBy("at").agg(*sums)
    first_time = (F.col("done") - F.col("again")).alias("processed")
    return summed.select("at", "offered", first_time, F.col("again").alias("processed_again"))


def timeline_by_pod(by_pod: DataFrame) -> DataFrame:
    """Return rows of ``schemas.TIMELINE_BY_POD`` from ``pod_bins``; only bins with work."""
    at = bin_of(F.col("at"), POD_BIN_NS).alias("at")
    return by_pod.groupBy(at, "pod").agg(F.sum("processings").alias("processed"))
