"""Summarise the ledger as runs: periods of neighbouring offsets that one pod began in order.

A run lies within one ownership: it is cut where its pod was assigned the partition again.

Twenty million processings become some thousand runs, in which order, overlap and ownership are
cheap to check. The summary is exact: rows outside a conflict between runs need no second look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

WORK_RUNS = T.StructType(
    [
        T.StructField("partition", T.IntegerType()),  # of the events topic, 7
        T.StructField("pod", T.StringType()),  # consumer-7d9c5b-x2x9p
        T.StructField("member_id", T.StringType()),  # rdkafka-0c5e…
        T.StructField("first_offset", T.LongType()),  # every offset from here …
        T.StructField("last_offset", T.LongType()),  # … to here, each once
        T.StructField("first_started_at", T.LongType()),  # of first_offset, unix ns
        T.StructField("last_started_at", T.LongType()),  # of last_offset; never earlier
        T.StructField("first_done_at", T.LongType()),  # the earliest of the run, unix ns
        T.StructField("last_done_at", T.LongType()),  # the latest of the run, unix ns
    ]
)
_USED = ("partition", "offset", "started_at", "done_at", "pod", "member_id")


Starts = Mapping[tuple[int, str], Iterable[int]]
"""The times of a pod's assignments, by partition and pod."""


def work_runs(processed: DataFrame, starts: Starts) -> DataFrame:
    """Turn rows of ``schemas.PROCESSED`` into rows of ``WORK_RUNS``, cut at ``starts``."""
    cuts = {owner: np.array(sorted(ats), np.int64) for owner, ats in starts.items()}

    def summarise(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield _runs_of(batch, cuts)

    return processed.select(*_USED).mapInArrow(summarise, WORK_RUNS)


def _runs_of(
    batch: pa.RecordBatch, cuts: Mapping[tuple[int, str], npt.NDArray[np.int64]]
) -> pa.RecordBatch:
    """Sort by owner and offset, then cut wherever the next row does not follow directly."""
    raw: dict[str, npt.NDArray[np.signedinteger]] = {
        name: _numbers(batch, name) for name in ("partition", "offset", "started_at", "done_at")
    }
    raw["pod"], raw["member"] = _codes(batch, "pod"), _codes(batch, "member_id")
    order = np.lexsort(
        (raw["started_at"], raw["offset"], raw["member"], raw["pod"], raw["partition"])
    )
    row = {name: values[order] for name, values in raw.items()}
    follows = (np.diff(row["offset"]) == 1) & (np.diff(row["started_at"]) >= 0)
    for owner in ("partition", "pod", "member"):
        follows &= np.diff(row[owner]) == 0
    follows &= np.diff(_ownerships(batch, order, follows, row["started_at"], cuts)) == 0
    firsts = np.concatenate(([0], np.flatnonzero(~follows) + 1))
    lasts = np.concatenate((firsts[1:] - 1, [len(order) - 1]))
    picked = batch.take(pa.array(order[firsts]))
    return pa.RecordBatch.from_arrays(
        [
            picked.column("partition"),
            picked.column("pod"),
            picked.column("member_id"),
            pa.array(row["offset"][firsts]),
            pa.array(row["offset"][lasts]),
            pa.array(row["started_at"][firsts]),
            pa.array(row["started_at"][lasts]),
            pa.array(np.minimum.reduceat(row["done_at"], firsts)),
            pa.array(np.maximum.reduceat(row["done_at"], firsts)),
        ],
        names=WORK_RUNS.names,
    )


def _ownerships(
    batch: pa.RecordBatch,
    order: npt.NDArray[np.int64],
    follows: npt.NDArray[np.bool_],
    started_at: npt.NDArray[np.int64],
    cuts: Mapping[tuple[int, str], npt.NDArray[np.int64]],
) -> npt.NDArray[np.int64]:
    """Return for each row how often its pod had been assigned the partition when it began."""
    counts = np.zeros(len(order), np.int64)
    firsts = np.concatenate(([0], np.flatnonzero(~follows) + 1))
    heads = batch.select(["partition", "pod"]).take(pa.array(order[firsts])).to_pydict()
    ends = [*firsts[1:].tolist(), len(order)]
    owners = zip(heads["partition"], heads["pod"], strict=True)
    for first, end, owner in zip(firsts.tolist(), ends, owners, strict=True):
        given = cuts.get(owner)
        if given is not None:
            counts[first:end] = np.searchsorted(given, started_at[first:end], side="right")
    return counts


def _numbers(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = batch.column(name).to_numpy(zero_copy_only=False)
    return numbers


def _codes(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.int32]:
    codes: npt.NDArray[np.int32] = pc.dictionary_encode(batch.column(name)).indices.to_numpy()
    return codes
