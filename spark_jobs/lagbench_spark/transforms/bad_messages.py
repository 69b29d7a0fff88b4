"""Bring every class of bad message into one table and name the cause of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from lagbench.core.ownership import CauseFinder
from lagbench.shared_with_spark import message_classes
from lagbench_spark import schemas
from lagbench_spark.summaries import IDENTITY

_GIVEN = ("class", "partition", "offset", "seq", "entity_id", "pod", "other_pod", "at", "detail")
_NANOSECONDS_PER_MILLISECOND = 1_000_000


def from_log(rows: DataFrame) -> DataFrame:
    """Bring unprocessed messages (class, partition, offset, seq, entity_id) into shape."""
    detail = F.when(
        F.col("class") == message_classes.LOST, "below the committed offset, never processed"
    ).otherwise("at or above the committed offset, not processed yet")
    return _shaped(rows, F.col("class"), detail=detail)


def from_foreign(rows: DataFrame) -> DataFrame:
    """Bring records that are not events of the run (partition, offset, detail) into shape."""
    return _shaped(rows, F.lit(message_classes.FOREIGN), detail=F.col("detail"))


def from_production(twice: DataFrame, missing: DataFrame, doubt: str) -> DataFrame:
    """Bring rows of ``schemas.EVENTS`` produced twice and missing seqs into shape."""
    again = _shaped(
        twice,
        F.lit(message_classes.PRODUCED_TWICE),
        at=F.col("logged_at"),
        detail=F.lit("the log also holds this seq at an earlier place"),
    )
    outcome = (
        F.when(F.col("class") == message_classes.NOT_IN_LOG_FAILED, "its delivery failed")
        .when(F.col("class") == message_classes.NOT_IN_LOG_UNKNOWN, "its delivery may have failed")
        .otherwise(f"produced{doubt}")
    )
    absent = _shaped(
        missing, F.col("class"), detail=F.concat(outcome, F.lit(": at no offset of the log"))
    )
    return again.unionByName(absent)


def from_unknown(rows: DataFrame) -> DataFrame:
    """Bring processings of messages that the log does not hold into shape."""
    return _shaped(
        rows,
        F.lit(message_classes.UNKNOWN_MESSAGE),
        pod=F.col("pod"),
        at=F.col("started_at"),
        detail=F.lit("the log holds another message at this offset, or none"),
    )


def from_repeats(rows: DataFrame) -> DataFrame:
    """Bring processings beyond the first into shape; the other pod was first."""
    return _shaped(
        rows,
        F.lit(message_classes.DUPLICATED),
        pod=F.col("pod"),
        other_pod=F.col("first_pod"),
        at=F.col("started_at"),
        detail=F.concat(F.lit("already done by "), "first_pod"),
    )


def from_failed(rows: DataFrame) -> DataFrame:
    """Bring messages that a pod gave up into shape."""
    return _shaped(
        rows,
        F.lit(message_classes.FAILED),
        pod=F.col("pod"),
        at=F.col("done_at"),
        detail=F.format_string("given up after %d attempts", "failed_attempts"),
    )


def from_reordered(rows: DataFrame) -> DataFrame:
    """Bring messages that were begun late into shape; the other pod had begun a later one."""
    return _shaped(
        rows,
        F.when(F.col("is_certain"), message_classes.REORDERED).otherwise(
            message_classes.REORDERED_IN_DOUBT
        ),
        pod=F.col("pod"),
        other_pod=F.col("overtaken_by"),
        at=F.col("started_at"),
        detail=F.concat(F.lit("begun after a later message, by "), "overtaken_by"),
    )


def from_zombies(rows: DataFrame) -> DataFrame:
    """Bring work of former owners into shape; the other pod is the next owner."""
    late_ms = (F.col("done_at") - F.col("next_began_at")) / _NANOSECONDS_PER_MILLISECOND
    return _shaped(
        rows,
        F.when(F.col("is_certain"), message_classes.ZOMBIE).otherwise(
            message_classes.ZOMBIE_IN_DOUBT
        ),
        pod=F.col("pod"),
        other_pod=F.col("next_pod"),
        at=F.col("done_at"),
        detail=F.format_string("done %.3f ms after %s began", late_ms, "next_pod"),
    )


def with_causes(rows: DataFrame, causes: CauseFinder) -> DataFrame:
    """Turn shaped rows into rows of ``schemas.BAD_MESSAGES``."""

    def blame_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _blamed(batch, causes)

    return rows.mapInArrow(blame_batches, schemas.BAD_MESSAGES)


def _shaped(rows: DataFrame, kind: Column, **given: Column) -> DataFrame:
    """Return the columns in ``_GIVEN``: as given, else of the same name, else null."""
    columns = {"class": kind, **given}
    chosen = []
    for name in _GIVEN:
        is_message = name in IDENTITY and name in rows.columns
        column = columns.get(name, F.col(name) if is_message else F.lit(None))
        chosen.append(column.cast(schema_type(name)).alias(name))
    return rows.select(*chosen)


def schema_type(name: str) -> T.DataType:
    """Return the type of a column of ``schemas.BAD_MESSAGES``."""
    return schemas.BAD_MESSAGES[name].dataType


def _blamed(batch: pa.RecordBatch, causes: CauseFinder) -> pa.RecordBatch:
    """Blame the rows group by group: a batch has many rows and few pods and partitions."""
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    groups: dict[tuple[str, int | None, str | None, str | None], list[int]] = {}
    keys = zip(*(columns[n] for n in ("class", "partition", "pod", "other_pod")), strict=True)
    for row, key in enumerate(keys):
        groups.setdefault(key, []).append(row)
    found: dict[str, list[object]] = {
        name: [None] * batch.num_rows for name in ("cause", "cause_at", "cause_pod")
    }
    for (kind, partition, pod, other_pod), rows in groups.items():
        places = [(columns["offset"][row], columns["at"][row]) for row in rows]
        blames = causes.blame(kind, partition, (pod, other_pod), places)
        for row, blame in zip(rows, blames, strict=True):
            columns["pod"][row], columns["at"][row] = blame.pod, blame.at
            found["cause"][row] = blame.cause
            found["cause_at"][row], found["cause_pod"][row] = blame.cause_at, blame.cause_pod
    every = {**columns, **found}
    kinds = {
        T.StringType(): pa.string(),
        T.IntegerType(): pa.int32(),
        T.LongType(): pa.int64(),
    }
    fields = schemas.BAD_MESSAGES.fields
    return pa.RecordBatch.from_arrays(
        [pa.array(every[field.name], kinds[field.dataType]) for field in fields],
        names=[field.name for field in fields],
    )
