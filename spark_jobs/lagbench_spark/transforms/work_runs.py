"""Summarise the ledger as runs: periods of neighbouring offsets that one pod began in order.

A run lies within one ownership: it is cut where its pod was assigned the partition again.

Twenty million processings become some thousand runs, in which order, overlap and ownership are
cheap to check. The summary is exact: rows outside a conflict between runs need no second look.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

WORK_RUNS = pa.schema(
    [
        ("partition", pa.int32()),  # of the events topic, 7
        ("pod", pa.string()),  # consumer-7d9c5b-x2x9p
        ("member_id", pa.string()),  # rdkafka-0c5e…
        ("first_offset", pa.int64()),  # every offset from here …
        ("last_offset", pa.int64()),  # … to here, each once
        ("first_started_at", pa.int64()),  # of first_offset, unix ns
        ("last_started_at", pa.int64()),  # of last_offset; never earlier
        ("first_done_at", pa.int64()),  # the earliest of the run, unix ns
        ("last_done_at", pa.int64()),  # the latest of the run, unix ns
    ]
)


Starts = Mapping[tuple[int, str], npt.NDArray[np.int64]]
"""The times of a pod's assignments in their order, by partition and pod."""


def runs_of(batch: pa.RecordBatch, cuts: Starts) -> pa.RecordBatch:
    """Return the runs of work in rows of ``schemas.PROCESSED``, cut at ``cuts``.

    Sorted by owner and offset, a run ends wherever the next row does not follow directly.
    """
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
        schema=WORK_RUNS,
    )


def _ownerships(
    batch: pa.RecordBatch,
    order: npt.NDArray[np.int64],
    follows: npt.NDArray[np.bool_],
    started_at: npt.NDArray[np.int64],
    cuts: Starts,
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
