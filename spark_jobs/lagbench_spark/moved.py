"""Account for keys whose partition changed when the topic grew, and the order of their messages.

Kafka keeps the order of a key within one partition. After a growth a key may go to another one: its
later messages can then be begun before earlier ones that still wait in the former partition. That
is not ``reordered``, which is a fault of the group: it is what a growth costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from lagbench.core.ownership.holdings import clock_of, most_error_ns
from lagbench_spark import schemas
from lagbench_spark.judge import places_in_log, turns_of
from lagbench_spark.landing import Run
from lagbench_spark.messages import Rules, read_events, read_work

MOST_KEYS_LISTED = 10_000
_FIRST_WORK = "entity_id bigint, seq bigint, partition int, started_at bigint, pod string"


def moved_keys(run: Run, pods: Sequence[str]) -> dict[str, Any] | None:
    """Write the table moved_keys; return its totals, None if the topic did not grow.

    The table lists the keys with the most messages out of order first, up to a bound.

    :param pods: those that worked.
    """
    first, clocks = run.facts.first_partitions, run.facts.clocks
    if first is None or len(run.fence.events) <= first:
        return None
    events = run.by_partition(partial(_first_work, run.rules), _FIRST_WORK).persist()
    keys = _keys_that_moved(events).persist()
    late = _overtaken(
        events.filter("started_at IS NOT NULL").join(keys, on="entity_id", how="left_semi"),
        slack_ns=most_error_ns(pods, clocks),
        unbounded_pods=[pod for pod in pods if clock_of(pod, clocks) is None],
    )
    by_key = late.groupBy("entity_id").agg(
        F.count_if("is_certain").alias("overtaken"),
        F.count_if(~F.col("is_certain")).alias("overtaken_in_doubt"),
        (F.max("late_ns") / F.lit(1e9)).alias("most_seconds"),
    )
    counts = ("overtaken", "overtaken_in_doubt")
    listed = keys.join(by_key, on="entity_id", how="left").fillna(0, subset=[*counts]).persist()
    sums = listed.agg(
        F.count(F.lit(1)).alias("keys"),
        F.sum("messages").alias("messages"),
        F.count_if(F.col("overtaken") > 0).alias("overtaken_keys"),
        *(F.sum(name).alias(name) for name in counts),
        F.max("most_seconds").alias("most_seconds"),
    ).first()
    ranked = listed.orderBy(F.desc("overtaken"), F.desc("messages"), "entity_id")
    run.folder.write_table("moved_keys", schemas.MOVED_KEYS, ranked.limit(MOST_KEYS_LISTED))
    found = {} if sums is None else sums.asDict()
    seconds = found.pop("most_seconds", None)
    return {name: int(count or 0) for name, count in found.items()} | {"most_seconds": seconds}


def _first_work(
    rules: Rules, partition: int | None, events: pa.Table, work: pa.Table
) -> pa.RecordBatch:
    """Return each event with the begin and the pod of its first processing; null: there is none."""
    log, _ = read_events(rules, events)
    done = read_work(rules, work)
    is_known, place = places_in_log(log, done.rows)
    known, place = done.only(is_known), place[is_known]
    order, is_first, _ = turns_of(known.rows)
    first, place = known.only(order[is_first]), place[order[is_first]]
    started_at, pod = np.zeros(len(log["seq"]), np.int64), np.full(len(log["seq"]), None, object)
    started_at[place], pod[place] = first.rows["started_at"], first.pod
    is_absent = np.ones(len(pod), bool)
    is_absent[place] = False
    columns = {
        "entity_id": log["entity_id"],
        "seq": log["seq"],
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), len(pod)),
        "started_at": pa.array(started_at, mask=is_absent),
        "pod": pa.array(pod, pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _keys_that_moved(events: DataFrame) -> DataFrame:
    """Return entity_id, partitions and messages of the keys with messages in two partitions.

    The partitions are in the order of their messages.
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


def _overtaken(rows: DataFrame, *, slack_ns: int, unbounded_pods: Sequence[str]) -> DataFrame:
    """Return the messages that were begun after a later one of their key in another partition.

    The result has entity_id, seq, late_ns and is_certain: two pods' starts are compared within
    ``slack_ns``, the bound of their clocks, and decide nothing if one of them is not bounded.
    """
    by_seq = Window.partitionBy("entity_id").orderBy("seq")
    is_new_stay = F.lag("partition").over(by_seq) != F.col("partition")
    moves = F.sum(F.coalesce(is_new_stay, F.lit(False)).cast("int")).over(by_seq)
    stays = rows.select("*", moves.alias("stay"))
    # A key has one stay more than growths that moved it: a handful.
    later = F.min(F.struct("started_at", "pod", "partition")).alias("later")
    others = stays.groupBy("entity_id", F.col("stay").alias("later_stay")).agg(later)
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
