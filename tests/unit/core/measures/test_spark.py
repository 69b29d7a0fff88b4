"""The measures of a consumer on Spark, from its own records."""

from __future__ import annotations

import re

import pytest

from lagbench.core.measures.spark_measures import published_findings, repeats_text, spark_measures
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    OffsetsPublished,
    SparkBatch,
    SparkDriverStarted,
    SparkTask,
)

S = 1_000_000_000


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d[\d,]*", text)


def _start(at: int, checkpointed: dict[str, int] | None, **published: int) -> SparkDriverStarted:
    return SparkDriverStarted(
        at=at * S,
        source="driver",
        spark_version="4.2.0",
        process_started_at=0,
        checkpointed=checkpointed,
        published=published,
    )


def _batch(number: int, at: int, *, seconds: float, rows: int = 100) -> SparkBatch:
    return SparkBatch(
        at=at * S,
        source="driver",
        batch=number,
        started_at=at * S - round(seconds * S),
        rows=rows,
        batch_seconds=seconds,
        trigger_seconds=2.0,
        input_rows_per_second=50.0,
        processed_rows_per_second=60.0,
        executors=2,
    )


def _task(batch: int, partition: int, at: int, attempt: int = 0) -> SparkTask:
    return SparkTask(
        at=at * S,
        source="consumer-0",
        batch=batch,
        partition=partition,
        attempt=attempt,
        started_at=(at - 1) * S,
        rows=10,
        first_offset=0,
        last_offset=9,
    )


def test_batches_are_measured_against_the_trigger() -> None:
    """Batches with messages only; their median, the longest one, and those above the trigger."""
    records: list[TelemetryRecord] = [
        _start(0, None),
        _batch(0, 1, seconds=9.0, rows=0),
        _batch(1, 4, seconds=1.0),
        _batch(2, 8, seconds=3.0),
        _batch(3, 10, seconds=1.5),
    ]
    found = spark_measures(records, 0, 100 * S)

    assert found is not None
    assert (found.batches, found.batches_over_trigger) == (3, 1)
    assert (found.batch_seconds, found.batch_max_seconds) == (1.5, 3.0)
    assert found.executor_seconds == pytest.approx(2 * 9)


def test_a_task_that_was_done_again_is_recomputed() -> None:
    """A later attempt, and the same partition of a batch a second time after a restart."""
    records: list[TelemetryRecord] = [
        _start(0, None),
        _task(1, 0, 3),
        _task(1, 1, 4, attempt=1),
        _task(1, 0, 9),
    ]
    found = spark_measures(records, 0, 100 * S)

    assert found is not None
    assert (found.tasks, found.tasks_recomputed, found.rows_recomputed) == (3, 2, 20)
    assert found.task_seconds == pytest.approx(3)


def test_the_publish_delay_is_that_of_new_offsets() -> None:
    """What is published again while idle has no delay."""
    published = [
        OffsetsPublished(at=at * S, source="driver", batch=at, offsets={}, delay_seconds=delay)
        for at, delay in ((1, 0.5), (2, None), (3, 1.5))
    ]
    found = spark_measures([_start(0, None), *published], 0, 100 * S)

    assert found is not None
    assert (found.publish_delay_seconds, found.publish_delay_max_seconds) == (1.0, 1.5)


def test_a_stand_in_has_no_such_measures() -> None:
    """Without a driver nothing is measured, which is not zero."""
    assert spark_measures([], 0, S) is None


def test_a_restart_compares_published_and_checkpointed_offsets() -> None:
    """A difference is a finding; agreement and the first start are none."""
    agreeing = _start(5, {"0": 10, "1": 5}, **{"0": 10, "1": 5})
    behind = _start(9, {"0": 30, "1": 5}, **{"0": 10, "1": 6})

    assert published_findings([_start(0, None), agreeing]) == ()
    (found,) = published_findings([_start(0, None), behind])
    assert _numbers(found) == ["1", "20", "1"]


def test_the_batches_with_repeats_are_named() -> None:
    """A killed worker repeats a part of one batch; a driver may repeat more."""
    assert not repeats_text(None)
    assert _numbers(repeats_text({"7": 1500})) == ["1,500", "7"]
    assert _numbers(repeats_text({"7": 15, "9": 40})) == ["55", "2", "9", "40"]
