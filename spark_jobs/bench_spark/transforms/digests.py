"""Compare two sides of 20 million messages by the digests of small blocks.

Two sides of a block with the same count and the same XOR of 64-bit hashes hold the same messages
(a wrong match has odds of 1 in 2^64), so only blocks that differ are compared message by message:
a clean run shuffles some thousand digests instead of all its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench_spark.transforms.blocks import block_of
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

IDENTITY = ("partition", "offset", "seq", "entity_id")


def message_digests(messages: DataFrame) -> DataFrame:
    """Return partition, block, count, digest, first_offset of rows that have ``IDENTITY``."""
    block = block_of(F.col("offset")).alias("block")
    return _digests(messages, ["partition", block], IDENTITY, F.min("offset").alias("first_offset"))


def seq_digests(messages: DataFrame) -> DataFrame:
    """Return block, count, digest of rows that have a seq."""
    return _digests(messages, [block_of(F.col("seq")).alias("block")], ["seq"])


def differing(left: DataFrame, right: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the ``keys`` of blocks whose count or digest is not the same on both sides."""
    sides = left.alias("left").join(right.alias("right"), on=list(keys), how="full")
    is_same = F.col("left.count").eqNullSafe(F.col("right.count")) & F.col(
        "left.digest"
    ).eqNullSafe(F.col("right.digest"))
    return sides.filter(~is_same).select(*keys)


def _digests(
    messages: DataFrame, keys: Sequence[str | Column], hashed: Sequence[str], *others: Column
) -> DataFrame:
    return messages.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("count"),
        F.bit_xor(F.xxhash64(*hashed)).alias("digest"),
        *others,
    )
