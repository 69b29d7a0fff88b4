"""Draw a run over time: rates, handovers, lag, replicas, latency; and its time lag.

The accounting counts records that are not events of the run, and those stamped outside of it.

The sample of the time lag is the messages that the scenario planned before the tail. The length of
the tail after it says nothing about the policy, so the tail is reported apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lagbench_spark import schemas
from lagbench_spark.rows import Ints
from lagbench_spark.summaries import BIN_NS, POD_BIN_NS
from lagbench_spark.transforms.work_runs import WORK_RUNS
from lagbench_spark.work import Work

_NANOSECONDS = 1_000_000_000
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Percentiles = dict[str, float | None]
Rows = list[dict[str, Any]]


def draw(work: Work, repeats: DataFrame | None, lost: DataFrame | None) -> None:
    """Write the tables of the run over time; a repetition replaces them."""
    folder, done = work.folder, _within(work, work.worked.get("done"))
    again = _binned(work, repeats, F.col("done_at"))
    never = _binned(work, lost, F.coalesce("planned_at", "logged_at"))
    offered = _within(work, work.logged.get("offered"))
    folder.write_rows("timeline", schemas.TIMELINE, timeline(offered, done, again))
    by_pod = _summed(done, "at", "pod").rename_columns({"count": "processed"})
    folder.write_columns("timeline_by_pod", schemas.TIMELINE_BY_POD, by_pod)
    by_partition = timeline_by_partition(offered, done, again, never)
    folder.write_columns("timeline_by_partition", schemas.TIMELINE_BY_PARTITION, by_partition)
    runs = work.worked.get("runs", WORK_RUNS.empty_table())
    folder.write_rows("partition_gaps", schemas.PARTITION_GAPS, partition_gaps(runs))
    records = [*readings(work.samples)]
    folder.write_rows("lag", schemas.LAG, list(lag_rows(records)))
    folder.write_rows("replicas", schemas.REPLICAS, list(replica_rows(records)))
    folder.write_rows("latency", schemas.LATENCY, list(_latency(work)))


def time_lag(work: Work) -> tuple[Percentiles, Percentiles | None]:
    """Return the percentiles of the sample, and of messages planned after it (None: none)."""
    nothing: Percentiles = dict.fromkeys([*_PERCENTILES, "max"])
    lags = work.worked.get("lags")
    if lags is None:
        return nothing, None
    lag, weight = lags["lag"].to_numpy(), lags["weight"].to_numpy()
    is_after = lags["is_after"].to_numpy()
    found = [
        percentiles(lag[chosen], weight[chosen]) if chosen.any() else None
        for chosen in (~is_after, is_after)
    ]
    return found[0] or nothing, found[1]


def percentiles(lag: Ints, weight: npt.NDArray[np.float64]) -> Percentiles:
    """Return the order statistics of values that stand for ``weight`` messages each, in seconds."""
    order = np.argsort(lag, kind="stable")
    ranks = np.cumsum(weight[order])
    wanted = np.ceil(np.array([*_PERCENTILES.values()]) * round(ranks[-1])) - 1e-6
    places = np.minimum(np.searchsorted(ranks, wanted), len(lag) - 1)
    values = [*lag[order][places].tolist(), int(lag[order][-1])]
    return {
        name: value / _NANOSECONDS
        for name, value in zip([*_PERCENTILES, "max"], values, strict=True)
    }


def message_seconds(work: Work) -> float | None:
    """Return the median cost of a message, from started to done; None: nothing was done."""
    costs = work.worked.get("costs")
    if costs is None or not costs.num_rows:
        return None
    return float(np.median(costs["cost"].to_numpy())) / _NANOSECONDS


def _binned(work: Work, rows: DataFrame | None, instant: Column) -> pa.Table | None:
    """Count rows by partition and bin inside the run."""
    if rows is None:
        return None
    at = (instant - F.pmod(instant, F.lit(BIN_NS))).alias("at")
    return _within(work, rows.groupBy("partition", at).count().toArrow())


def _summed(bins: pa.Table | None, *keys: str) -> pa.Table:
    """Add up the counts of the bins that have these keys in common."""
    if bins is None:
        bins = pa.table({name: [] for name in (*keys, "count")})
    sums = bins.group_by([*keys]).aggregate([("count", "sum")])
    return sums.rename_columns({"count_sum": "count"})


def _within(work: Work, bins: pa.Table | None) -> pa.Table | None:
    """Return the bins inside the run; a stamp far outside would make endless bins."""
    if bins is None or work.rules.window is None:
        return None
    first, last = work.rules.window
    inside = pc.and_(pc.greater(bins["at"], first), pc.less(bins["at"], last - POD_BIN_NS))
    return bins.filter(inside)


def timeline(offered: pa.Table | None, done: pa.Table | None, again: pa.Table | None) -> Rows:
    """Return rows of ``schemas.TIMELINE``, one for every bin from the first to the last.

    A bin without work inside the run is known to have none, so its value is zero.
    """
    parts = [
        (table["at"].to_numpy(), table["count"].to_numpy())
        for table in (offered, done, again)
        if table is not None and table.num_rows
    ]
    if not parts:
        return []
    first = min(int(at.min()) for at, _ in parts)
    size = (max(int(at.max()) for at, _ in parts) - first) // BIN_NS + 1
    sums = {}
    for name, table in (("offered", offered), ("done", done), ("again", again)):
        sums[name] = np.zeros(size, np.int64)
        if table is not None:
            places = (table["at"].to_numpy() - first) // BIN_NS
            np.add.at(sums[name], places, table["count"].to_numpy())
    columns = (sums["offered"], sums["done"] - sums["again"], sums["again"])
    every = zip(*(column.tolist() for column in columns), strict=True)
    return [
        {"at": first + place * BIN_NS, "offered": new, "processed": done, "processed_again": twice}
        for place, (new, done, twice) in enumerate(every)
    ]


def timeline_by_partition(
    offered: pa.Table | None,
    done: pa.Table | None,
    again: pa.Table | None,
    lost: pa.Table | None,
) -> pa.Table:
    """Return rows of ``schemas.TIMELINE_BY_PARTITION`` from counts by partition and bin."""
    names = ("offered", "processed", "lost")
    parts = []
    for name, sign, table in (
        ("offered", 1, offered),
        ("processed", 1, done),
        ("processed", -1, again),
        ("lost", 1, lost),
    ):
        if table is not None:
            nothing = pa.array(np.zeros(table.num_rows, np.int64))
            counts = {**dict.fromkeys(names, nothing), name: pc.multiply(table["count"], sign)}
            place = {"partition": pc.cast(table["partition"], pa.int32()), "at": table["at"]}
            parts.append(pa.table({**place, **counts}))
    if not parts:
        return pa.table({name: [] for name in ("partition", "at", *names)})
    sums = pa.concat_tables(parts, promote_options="permissive").group_by(["partition", "at"])
    found = sums.aggregate([(name, "sum") for name in names])
    return found.rename_columns({f"{name}_sum": name for name in names})


def partition_gaps(runs: pa.Table) -> Rows:
    """Turn ``WORK_RUNS`` into rows of ``schemas.PARTITION_GAPS``, the handovers between pods."""
    order = [(name, "ascending") for name in ("partition", "first_started_at", "first_offset")]
    gaps: Rows = []
    before: dict[str, Any] | None = None
    for run in runs.sort_by(order).to_pylist():
        if before is not None and before["partition"] == run["partition"]:
            if before["pod"] == run["pod"]:
                for name, most in (("first_done_at", min), ("last_done_at", max)):
                    before[name] = most(before[name], run[name])
                continue
            gaps.append(
                {
                    "partition": run["partition"],
                    "from_pod": before["pod"],
                    "to_pod": run["pod"],
                    "last_done_at": before["last_done_at"],
                    "next_done_at": run,
                }
            )
        before = run
    for gap in gaps:  # the next owner's first work may be in a later run
        gap["next_done_at"] = gap["next_done_at"]["first_done_at"]
        gap["gap_seconds"] = (gap["next_done_at"] - gap["last_done_at"]) / _NANOSECONDS
    return gaps


def _latency(work: Work) -> Iterator[dict[str, Any]]:
    """Return rows of ``schemas.LATENCY``; rows without a planned instant have no latency."""
    lags = _within(work, work.worked.get("lags"))
    if lags is None or not lags.num_rows:
        return
    lags = lags.sort_by("at")
    at, lag, weight = (lags[name].to_numpy() for name in ("at", "lag", "weight"))
    firsts = np.flatnonzero(np.diff(at, prepend=at[0] - 1))
    for first, end in zip(firsts, [*firsts, len(at)][1:], strict=True):
        found = percentiles(lag[first:end], weight[first:end])
        named = {f"{name}_seconds": value for name, value in found.items()}
        yield {"at": int(at[first]), "count": round(weight[first:end].sum()), **named}


def readings(texts: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Return the recorder's readings; what is not JSON with an instant is left out."""
    for text in texts:
        try:
            record = json.loads(text)
        except ValueError:
            continue
        if isinstance(record, dict) and _is_number(record.get("at")):
            yield record


def _is_number(value: object, bits: int = 64) -> bool:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return is_whole and -(1 << (bits - 1)) <= value < 1 << (bits - 1)  # type: ignore[operator]


def lag_rows(records: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return rows of ``schemas.LAG``. A failed reading is absent: a gap stays a gap."""
    for record in records:
        found = record.get("partitions")
        for row in found if isinstance(found, list) else ():
            if not isinstance(row, list):
                continue
            partition, end, committed = (*row, None, None, None)[:3]
            is_read = _is_number(partition, 32) and _is_number(end)
            if not is_read or not (committed is None or _is_number(committed)):
                continue
            # The offsets are read in sequence: a commit in between gives no negative lag.
            lag = None if committed is None else max(end - committed, 0)
            yield {
                "at": record["at"],
                "partition": partition,
                "end_offset": end,
                "committed": committed,
                "lag": lag,
            }


def replica_rows(records: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return rows of ``schemas.REPLICAS``; a reading that lacks a field is left out."""
    for record in records:
        row = {name: record.get(name) for name in ("spec", "current", "ready")}
        if record.get("kind") == "replica_sample" and all(_is_number(n, 32) for n in row.values()):
            yield {"at": record["at"], **row}
