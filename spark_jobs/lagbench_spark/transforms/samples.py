"""Extract the recorder's readings. A failed reading is absent: a gap stays a gap.

A row that lacks the fields of a reading is left out.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

_LAG_FIELDS = "partitions array<array<bigint>>"  # rows of [partition, end, committed or null]
_REPLICA_FIELDS = "spec int, current int, ready int"


def lag(telemetry: DataFrame) -> DataFrame:
    """Turn rows of ``schemas.TELEMETRY`` into rows of ``schemas.LAG``."""
    samples = telemetry.filter(F.col("kind") == "lag_sample").select(
        "at", F.explode(F.from_json("record", _LAG_FIELDS)["partitions"]).alias("row")
    )
    read = samples.select(
        "at",
        F.get("row", F.lit(0)).alias("partition"),
        F.get("row", F.lit(1)).alias("end_offset"),
        F.get("row", F.lit(2)).alias("committed"),
    ).filter("at is not null and partition is not null and end_offset is not null")
    # The two offsets are read in sequence: a commit in between must not give a negative lag.
    behind = F.greatest(F.col("end_offset") - F.col("committed"), F.lit(0))
    return read.withColumn("lag", F.when(F.col("committed").isNotNull(), behind))


def replicas(telemetry: DataFrame) -> DataFrame:
    """Turn rows of ``schemas.TELEMETRY`` into rows of ``schemas.REPLICAS``."""
    samples = telemetry.filter(F.col("kind") == "replica_sample")
    read = samples.select("at", F.from_json("record", _REPLICA_FIELDS).alias("sample"))
    known = read.select("at", "sample.spec", "sample.current", "sample.ready")
    return known.dropna()
