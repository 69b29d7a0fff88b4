"""Draw a run over time: rates, handovers, lag, replicas, latency; and its time lag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lagbench.core.telemetry.records import decode_record
from lagbench.core.telemetry.records_of_recorder import LagSample, ReplicaSample
from lagbench_spark import schemas
from lagbench_spark.judge import BIN_NS, SECOND_NS
from lagbench_spark.messages import Ints

_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Percentiles = dict[str, float | None]
Drawn = tuple[str, pa.Schema, pa.Table]


def timelines(
    found: Mapping[str, pa.Table], samples: Iterable[str], window: tuple[int, int] | None
) -> Iterator[Drawn]:
    """Return name, schema and rows of each table of the run over time.

    :param found: the counts of all partitions by bin, their gaps and lags.
    :param samples: the recorder's readings as JSON.
    :param window: only what lies in it is drawn; a stamp far outside would make endless bins.
    """
    bins = {name: _within(found[name], window) for name in ("offered", "done", "again", "lost")}
    yield "timeline", schemas.TIMELINE, timeline(bins)
    by_pod = bins["done"].group_by(["at", "pod"]).aggregate([("count", "sum")])
    by_pod = by_pod.rename_columns({"count_sum": "processed"})
    yield "timeline_by_pod", schemas.TIMELINE_BY_POD, by_pod
    yield "timeline_by_partition", schemas.TIMELINE_BY_PARTITION, timeline_by_partition(bins)
    yield "partition_gaps", schemas.PARTITION_GAPS, found["gaps"]
    lag, replicas = _readings(samples)
    yield "lag", schemas.LAG, pa.Table.from_pylist(lag, schemas.LAG)
    yield "replicas", schemas.REPLICAS, pa.Table.from_pylist(replicas, schemas.REPLICAS)
    latency = [*_latency(_within(found["lags"], window).sort_by("at"))]
    yield "latency", schemas.LATENCY, pa.Table.from_pylist(latency, schemas.LATENCY)


def time_lag(lags: pa.Table) -> tuple[Percentiles, Percentiles | None]:
    """Return the percentiles of the sample, and of messages planned after it (None: none)."""
    lag, weight = lags["lag"].to_numpy(), lags["weight"].to_numpy()
    is_after = lags["is_after"].to_numpy()
    nothing: Percentiles = dict.fromkeys([*_PERCENTILES, "max"])
    during, after = (
        percentiles(lag[chosen], weight[chosen]) if chosen.any() else None
        for chosen in (~is_after, is_after)
    )
    return during or nothing, after


def percentiles(lag: Ints, weight: npt.NDArray[np.float64]) -> Percentiles:
    """Return the order statistics of values that stand for ``weight`` messages each, in seconds."""
    order = np.argsort(lag, kind="stable")
    ranks = np.cumsum(weight[order])
    wanted = np.ceil(np.array([*_PERCENTILES.values()]) * round(ranks[-1])) - 1e-6
    places = np.minimum(np.searchsorted(ranks, wanted), len(lag) - 1)
    values = [*lag[order][places].tolist(), int(lag[order][-1])]
    names = [*_PERCENTILES, "max"]
    return {name: value / SECOND_NS for name, value in zip(names, values, strict=True)}


def message_seconds(costs: pa.Table) -> float | None:
    """Return the median cost of a message, from started to done; None: nothing was done."""
    return float(np.median(costs["cost"].to_numpy())) / SECOND_NS if costs.num_rows else None


def _within(bins: pa.Table, window: tuple[int, int] | None) -> pa.Table:
    first, last = window or (0, 0)
    inside = pc.and_(pc.greater(bins["at"], first), pc.less(bins["at"], last - SECOND_NS))
    return bins.filter(inside)


def timeline(bins: Mapping[str, pa.Table]) -> pa.Table:
    """Return rows of ``schemas.TIMELINE``, one for every bin from the first to the last.

    A bin without work inside the run is known to have none, so its value is zero.
    """
    names = ("offered", "done", "again")
    every = np.concatenate([bins[name]["at"].to_numpy() for name in names])
    if not len(every):
        return schemas.TIMELINE.empty_table()
    at = np.arange(every.min(), every.max() + BIN_NS, BIN_NS)
    sums = {name: np.zeros(len(at), np.int64) for name in names}
    for name, counts in sums.items():
        places = (bins[name]["at"].to_numpy() - at[0]) // BIN_NS
        np.add.at(counts, places, bins[name]["count"].to_numpy())
    columns = {
        "at": at,
        "offered": sums["offered"],
        "processed": sums["done"] - sums["again"],
        "processed_again": sums["again"],
    }
    return pa.table(columns)


def timeline_by_partition(bins: Mapping[str, pa.Table]) -> pa.Table:
    """Return rows of ``schemas.TIMELINE_BY_PARTITION``."""
    names = ("offered", "processed", "lost")
    parts = []
    for name, sign, counted in (
        ("offered", 1, "offered"),
        ("processed", 1, "done"),
        ("processed", -1, "again"),
        ("lost", 1, "lost"),
    ):
        table = bins[counted]
        counts = {n: np.zeros(table.num_rows, np.int64) for n in names}
        counts[name] = table["count"].to_numpy() * sign
        parts.append(pa.table({"partition": table["partition"], "at": table["at"], **counts}))
    sums = pa.concat_tables(parts).group_by(["partition", "at"])
    found = sums.aggregate([(name, "sum") for name in names])
    return found.rename_columns({f"{name}_sum": name for name in names})


def _latency(lags: pa.Table) -> Iterator[dict[str, Any]]:
    """Return rows of ``schemas.LATENCY``; a second without a planned instant has none."""
    at, lag, weight = (lags[name].to_numpy() for name in ("at", "lag", "weight"))
    firsts = np.flatnonzero(np.diff(at, prepend=-1))
    for first, end in zip(firsts, [*firsts, len(at)][1:], strict=True):
        found = percentiles(lag[first:end], weight[first:end])
        named = {f"{name}_seconds": value for name, value in found.items()}
        yield {"at": int(at[first]), "count": round(weight[first:end].sum()), **named}


def _readings(texts: Iterable[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return rows of ``schemas.LAG`` and of ``schemas.REPLICAS``.

    A garbled record is left out. A failed reading is absent: a gap stays a gap.
    """
    of_lag, of_replicas = list[dict[str, Any]](), list[dict[str, Any]]()
    for text in texts:
        try:
            record = decode_record(text)
            if isinstance(record, LagSample):
                rows = [
                    {
                        "at": record.at,
                        "partition": partition,
                        "end_offset": end,
                        "committed": committed,
                        # Offsets are read in sequence: a commit in between is no negative lag.
                        "lag": None if committed is None else max(end - committed, 0),
                    }
                    for partition, end, committed in record.partitions
                ]
                pa.Table.from_pylist(rows, schemas.LAG)
                of_lag += rows
            elif isinstance(record, ReplicaSample):
                row = {name: getattr(record, name) for name in schemas.REPLICAS.names}
                pa.Table.from_pylist([row], schemas.REPLICAS)
                of_replicas.append(row)
        except (msgspec.DecodeError, ValueError, OverflowError):
            continue
    return of_lag, of_replicas
