"""Find what a pod had in the ledger and in hand when it was killed."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from lagbench.core.ownership import Ledgered, Unledgered, unledgered_bounds
from lagbench_spark.work import Work


def unledgered_work(work: Work) -> list[Unledgered]:
    """Return the bound for each kill, by pod."""
    kills = work.facts.kills
    if not kills:
        return []
    by_kill = work.worked.get("by_kill")
    ledgered = []
    if by_kill is not None:
        found = by_kill.group_by(["pod", "kills"])
        rows = found.aggregate([("count", "max"), ("last_at", "max")]).to_pylist()
        ledgered = [
            Ledgered(row["pod"], row["kills"], row["count_max"], row["last_at_max"]) for row in rows
        ]
    return unledgered_bounds(kills, ledgered, _idle(work), work.facts.holdings.held)


def _idle(work: Work) -> dict[str, list[int]]:
    """Return when each killed pod reported that it had nothing to do."""
    fields = "inflight bigint, queued bigint"
    reported: Any = work.telemetry.filter(
        (F.col("kind") == "consumer_progress") & F.col("source").isin(*work.facts.kills)
    ).select("source", "at", F.from_json("record", fields).alias("figures"))
    nothing = reported.filter((F.col("figures.inflight") == 0) & (F.col("figures.queued") == 0))
    clocks = work.facts.clocks
    idle: dict[str, list[int]] = defaultdict(list)
    for row in nothing.select("source", "at").collect():
        idle[row["source"]].append(clocks.on_recorders(row["at"], row["source"]))
    return idle
