"""Account for the keys whose partition changed when the topic grew during the run."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lagbench_spark import schemas
from lagbench_spark.suspicion import Suspicion
from lagbench_spark.transforms.identity import unknown
from lagbench_spark.transforms.moved_keys import keys_that_moved, overtaken
from lagbench_spark.transforms.order import ROW
from lagbench_spark.work import Work

MOST_KEYS_LISTED = 10_000
_NANOSECONDS = 1e9


def moved_keys(
    work: Work, suspicion: Suspicion, repeats: DataFrame | None
) -> dict[str, Any] | None:
    """Write the table moved_keys; return its totals, None if the topic did not grow.

    The table lists the keys with the most messages out of order first, up to a bound.
    """
    first = work.facts.first_partitions
    if first is None or len(work.fence.events) <= first:
        return None
    keys = keys_that_moved(work.events()).persist()
    late = overtaken(
        _first_work(work, suspicion, repeats),
        keys,
        slack_ns=suspicion.slack_ns,
        unbounded_pods=suspicion.unbounded_pods,
    )
    by_key = late.groupBy("entity_id").agg(
        F.count_if("is_certain").alias("overtaken"),
        F.count_if(~F.col("is_certain")).alias("overtaken_in_doubt"),
        (F.max("late_ns") / F.lit(_NANOSECONDS)).alias("most_seconds"),
    )
    counts = ("overtaken", "overtaken_in_doubt")
    listed = keys.join(by_key, on="entity_id", how="left").fillna(0, subset=list(counts)).persist()
    sums = listed.agg(
        F.count(F.lit(1)).alias("keys"),
        F.sum("messages").alias("messages"),
        F.count_if(F.col("overtaken") > 0).alias("overtaken_keys"),
        *(F.sum(name).alias(name) for name in counts),
        F.max("most_seconds").alias("most_seconds"),
    ).first()
    ranked = listed.orderBy(F.desc("overtaken"), F.desc("messages"), "entity_id")
    work.folder.write_table("moved_keys", schemas.MOVED_KEYS, ranked.limit(MOST_KEYS_LISTED))
    found = {} if sums is None else sums.asDict()
    seconds = found.pop("most_seconds", None)
    return {name: int(count or 0) for name, count in found.items()} | {"most_seconds": seconds}


def _first_work(work: Work, suspicion: Suspicion, repeats: DataFrame | None) -> DataFrame:
    """Return each message's first processing, without those of messages that the log lacks."""
    rows = work.processed()
    if repeats is not None:
        rows = rows.join(repeats.select(*ROW), on=ROW, how="left_anti")
    if suspicion.identity is not None:
        strange = unknown(work.events(), rows)
        rows = rows.join(strange.select(*ROW), on=ROW, how="left_anti")
    return rows
