"""Extract the fields that every telemetry record has."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

_EVERY_RECORD = "at bigint, source string, kind string"


def decode_telemetry(records: DataFrame) -> DataFrame:
    """Turn records of Spark's Kafka source into rows of ``schemas.TELEMETRY``.

    A record that is not JSON keeps its text, as far as it is text; at, source and kind are null.
    """
    text = F.coalesce(F.make_valid_utf8(F.col("value").cast("string")), F.lit(""))
    rows = records.select(
        F.from_json(text, _EVERY_RECORD).alias("head"), text.alias("record"), "partition", "offset"
    )
    return rows.select("head.at", "head.source", "head.kind", "record", "partition", "offset")


def stream_started_at(telemetry: DataFrame) -> int | None:
    """Return the instant of planned offset 0 from rows of ``schemas.TELEMETRY``; None: unknown."""
    field = F.get_json_object("record", "$.stream_started_at").try_cast("bigint")
    started = telemetry.filter(F.col("kind") == "stream_started").agg(F.min(field)).first()
    return None if started is None else started[0]
