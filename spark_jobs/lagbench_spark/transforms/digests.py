"""Compare two sides of 20 million messages block by block.

In a block that holds the same messages on both sides the counts are equal and the XOR of the
64-bit hashes of both sides is zero (by chance: odds of 1 in 2^64). Only other blocks are compared
message by message, so a clean run shuffles some thousand digests instead of all its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lagbench_spark.transforms.blocks import block_of

IDENTITY = ("partition", "offset", "seq", "entity_id")


def compared_messages(events: DataFrame, processed: DataFrame) -> DataFrame:
    """Return partition, block, in_left (logged), in_right (processed), difference, first_offset.

    Both sides have ``IDENTITY``; first_offset is the log's, null where only work is known.
    """
    block = block_of(F.col("offset")).alias("block")
    first = F.min(F.when(F.col("is_left"), F.col("offset"))).alias("first_offset")
    both = _both(events.select(*IDENTITY), processed.select(*IDENTITY))
    return _compared(both, ["partition", block], IDENTITY, first)


def compared_seqs(events: DataFrame, produced: int) -> DataFrame:
    """Return block, in_left (logged), in_right (0 to ``produced`` - 1), difference of seqs."""
    expected = events.sparkSession.range(produced).select(F.col("id").alias("seq"))
    both = _both(events.select("seq"), expected)
    return _compared(both, [block_of(F.col("seq")).alias("block")], ["seq"])


def differing(compared: DataFrame) -> DataFrame:
    """Return the keys (block, and partition if given) of blocks that differ."""
    is_same = (F.col("in_left") == F.col("in_right")) & (F.col("difference") == 0)
    keys = [name for name in ("partition", "block") if name in compared.columns]
    return compared.filter(~is_same).select(*keys)


def _both(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.withColumn("is_left", F.lit(True)).union(right.withColumn("is_left", F.lit(False)))


def _compared(
    both: DataFrame, keys: Sequence[str | Column], hashed: Sequence[str], *others: Column
) -> DataFrame:
    return both.groupBy(*keys).agg(
        F.count_if("is_left").alias("in_left"),
        F.count_if(~F.col("is_left")).alias("in_right"),
        F.bit_xor(F.xxhash64(*hashed)).alias("difference"),
        *others,
    )
