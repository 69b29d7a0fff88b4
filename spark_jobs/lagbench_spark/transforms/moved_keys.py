"""Follow the keys whose partition changed when the topic grew, and the order of their messages.

Kafka keeps the order of a key within one partition. After a growth a key may go to another one: its
later messages can then be begun before earlier ones that still wait in the former partition. That
is not ``reordered``, which is a fault of the group: it is what a growth costs.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_MESSAGE = ("entity_id", "seq", "partition", "started_at", "pod")


def keys_that_moved(events: DataFrame) -> DataFrame:
    """Return entity_id, partitions and messages of the keys with messages in two partitions.

    ``events`` are rows of ``schemas.EVENTS``; the partitions are in the order of their messages.
    """
    stays = events.groupBy("entity_id", "partition").agg(
        F.count(F.lit(1)).alias("messages"), F.min("seq").alias("first_seq")
    )
    by_key = stays.groupBy("entity_id").agg(
        F.sort_array(F.collect_list(F.struct("first_seq", "partition"))).alias("stays"),
        F.sum("messages").alias("messages"),
    )
    return by_key.filter(F.size("stays") > 1).select(
        "entity_id", F.col("stays.partition").alias("partitions"), "messages"
    )


def overtaken(
    first_work: DataFrame, keys: DataFrame, *, slack_ns: int, unbounded_pods: Sequence[str]
) -> DataFrame:
    """Return the messages of ``keys`` that were begun after a later one in another partition.

    ``first_work`` are rows of ``schemas.PROCESSED``, each message once. The result has entity_id,
    seq, late_ns and is_certain: two pods' starts are compared within ``slack_ns``, the bound of
    their clocks, and decide nothing if one of the clocks is not bounded.
    """
    rows = first_work.join(keys.select("entity_id"), on="entity_id", how="left_semi")
    by_seq = Window.partitionBy("entity_id").orderBy("seq")
    is_new_stay = F.lag("partition").over(by_seq) != F.col("partition")
    moves = F.sum(F.coalesce(is_new_stay, F.lit(False)).cast("int")).over(by_seq)
    stays = rows.select(*_MESSAGE, moves.alias("stay"))
    # A key has one stay more than growths that moved it: a handful.
    firsts = stays.groupBy("entity_id", "stay").agg(
        F.min(F.struct("started_at", "pod", "partition")).alias("later")
    )
    others = firsts.withColumnRenamed("stay", "later_stay")
    late_ns = F.col("started_at") - F.col("later.started_at")
    is_one_pod = F.col("pod") == F.col("later.pod")
    slack = F.when(is_one_pod, F.lit(0)).otherwise(F.lit(slack_ns))
    are_bounded = ~F.col("pod").isin(*unbounded_pods) & ~F.col("later.pod").isin(*unbounded_pods)
    found = stays.join(others, on="entity_id").filter(
        (F.col("later_stay") > F.col("stay"))
        & (F.col("later.partition") != F.col("partition"))
        & (late_ns > -slack)
    )
    return found.groupBy("entity_id", "seq").agg(
        F.max(late_ns).alias("late_ns"),
        F.max((late_ns > slack) & (is_one_pod | are_bounded)).alias("is_certain"),
    )
