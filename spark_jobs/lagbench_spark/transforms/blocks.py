"""Blocks, the unit of suspicion: 4096 neighbouring offsets or seqs, or about 134 ms.

Coarse summaries find the places that may be wrong. Then whole blocks are read message by message.
An extra block costs time but no exactness, so a region becomes every block that it touches.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

NUMBER_BITS = 12  # 4096 offsets or seqs
TIME_BITS = 27  # 2^27 ns = 134 ms


def block_of(number: Column, bits: int = NUMBER_BITS) -> Column:
    """Return the block that holds a number (offset, seq, or with ``TIME_BITS`` an instant)."""
    return F.shiftright(number, bits)


def touched(regions: pa.Table, first: str, last: str, bits: int = NUMBER_BITS) -> pa.Table:
    """Return partition, block (each once) that the regions from ``first`` to ``last`` touch."""
    begins, ends = (regions[name].to_numpy() >> bits for name in (first, last))
    counts = ends - begins + 1
    partition = np.repeat(regions["partition"].to_numpy(), counts)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    block = np.repeat(begins, counts) + np.arange(counts.sum()) - starts
    return (
        pa.table({"partition": partition, "block": block})
        .group_by(["partition", "block"])
        .aggregate([])
    )


def rows_in(rows: DataFrame, blocks: DataFrame, number: str) -> DataFrame:
    """Return the rows whose ``number`` lies in one of the blocks (of their partition, if given)."""
    keys: list[str] = [name for name in ("partition", "block") if name in blocks.columns]
    numbered = rows.withColumn("block", block_of(F.col(number)))
    return numbered.join(F.broadcast(blocks), on=keys, how="left_semi").select(*rows.columns)
