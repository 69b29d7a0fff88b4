"""Find messages of the log without a processing, and processings without a message."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lagbench.shared_with_spark import message_classes
from lagbench_spark.summaries import IDENTITY

_MESSAGE = list(IDENTITY)


def unprocessed(
    events: DataFrame, processed: DataFrame, committed: Mapping[int, int | None]
) -> DataFrame:
    """Return the rows of ``schemas.EVENTS`` without a processing, each with its class.

    Below the committed offset a message is lost; from there on it waits to be consumed.
    """
    missing = events.join(processed, on=_MESSAGE, how="left_anti")
    is_given_up = F.col("offset") < _committed(committed)
    label = F.when(is_given_up, message_classes.LOST).otherwise(message_classes.NOT_YET_CONSUMED)
    return missing.withColumn("class", label)


def unknown(events: DataFrame, processed: DataFrame) -> DataFrame:
    """Return the rows of ``schemas.PROCESSED`` whose message is not at that place in the log."""
    return processed.join(events.select(*_MESSAGE), on=_MESSAGE, how="left_anti")


def _committed(committed: Mapping[int, int | None]) -> Column:
    """Return the committed offset of the row's partition; -1 if there is none."""
    known = {partition: offset for partition, offset in committed.items() if offset is not None}
    if not known:
        return F.lit(-1)
    pairs = [F.lit(part) for item in sorted(known.items()) for part in item]
    return F.coalesce(F.try_element_at(F.create_map(*pairs), F.col("partition")), F.lit(-1))
