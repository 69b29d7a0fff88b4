"""Bound the work of killed pods that is missing in the ledger.

A write is in the ledger only when its batch, or its transaction, is. The next owner repeats the
work that a killed pod had done since then, and no record shows it. The upper bound is the pod's
busiest second, for the whole time in which it was not heard of.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from pyspark.sql import functions as F  # noqa: N812

from lagbench_spark.transforms.rates import POD_BIN_NS, bin_of
from lagbench_spark.work import Work

_NANOSECONDS = 1_000_000_000


class Unledgered(NamedTuple):
    """Upper bound of a killed pod's writes that are in no ledger; ``seconds`` is their time."""

    pod: str
    killed_at: int
    seconds: float
    messages: int


def unledgered_work(work: Work) -> list[Unledgered]:
    """Return the bound for each pod that was killed, by pod.

    It counts from the pod's last row of the ledger, or from its last report that nothing was
    queued or begun, if that is later.
    """
    killed = work.facts.killed_at
    if not killed:
        return []
    rows = work.processed.filter(F.col("pod").isin(*killed))
    last = {
        row["pod"]: row["last"]
        for row in rows.groupBy("pod").agg(F.max("done_at").alias("last")).collect()
    }
    by_second = rows.groupBy("pod", bin_of(F.col("done_at"), POD_BIN_NS).alias("second")).count()
    most = {
        row["pod"]: row["most"]
        for row in by_second.groupBy("pod").agg(F.max("count").alias("most")).collect()
    }
    idle = _last_idle(work)
    found = []
    for pod, killed_at in sorted(killed.items()):
        if pod not in last:
            continue  # it has done nothing
        since_at = max(last[pod], idle.get(pod, 0))
        seconds = max(0, killed_at - since_at) / _NANOSECONDS
        found.append(Unledgered(pod, killed_at, seconds, math.ceil(seconds * most[pod])))
    return found


def _last_idle(work: Work) -> dict[str, int]:
    """Return when each killed pod last reported that it had nothing to do."""
    fields = "inflight bigint, queued bigint"
    reported: Any = work.telemetry.filter(
        (F.col("kind") == "consumer_progress") & F.col("source").isin(*work.facts.killed_at)
    ).select("source", "at", F.from_json("record", fields).alias("figures"))
    nothing = reported.filter((F.col("figures.inflight") == 0) & (F.col("figures.queued") == 0))
    last = nothing.groupBy("source").agg(F.max("at").alias("at")).collect()
    clocks = work.facts.clocks
    return {row["source"]: clocks.on_recorders(row["at"], row["source"]) for row in last}
