"""Measure a consumer on Spark: its batches, tasks, executors, and the offsets that it publishes.

Other modules measure what every kind of consumer has, under the same names: reaction, drain, flips,
time lag, pod time, standstill, accounting.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    OffsetsPublished,
    SparkBatch,
    SparkDriverStarted,
    SparkTask,
)


class SparkMeasures(MeasureModel):
    """Batches with messages, tasks and executors of the measurement window."""

    trigger_seconds: float | None
    batches: int
    batch_seconds: float | None  # median
    batch_max_seconds: float | None
    batches_over_trigger: int
    input_rows_per_second: float | None  # median over batches, as Spark reports it
    processed_rows_per_second: float | None
    tasks: int  # that ended; one that died with its worker reports nothing
    tasks_recomputed: int  # that were not the first attempt, or repeated a batch's partition
    rows_recomputed: int
    task_seconds: float
    executor_seconds: float | None  # executors over time; None: fewer than two batches
    publish_delay_seconds: float | None  # from a batch's end until the group has its offsets
    publish_delay_max_seconds: float | None
    driver_starts: int
    findings: tuple[str, ...] = ()

    @property
    def executor_minutes(self) -> float | None:
        """The executors' time in minutes."""
        return None if self.executor_seconds is None else self.executor_seconds / 60


def spark_measures(
    records: Sequence[TelemetryRecord], from_at: int, until_at: int
) -> SparkMeasures | None:
    """Return the measures; None: no driver of Spark ran.

    Tasks are counted by the end of the window, batches by their end inside it.
    """
    starts = [r for r in records if isinstance(r, SparkDriverStarted)]
    if not starts:
        return None
    within = [r for r in records if from_at <= r.at <= until_at]
    every = sorted((r for r in within if isinstance(r, SparkBatch)), key=lambda r: r.at)
    batches = [batch for batch in every if batch.rows]
    tasks = sorted((r for r in within if isinstance(r, SparkTask)), key=lambda r: r.at)
    again = _recomputed(tasks)
    delays = [
        r.delay_seconds
        for r in within
        if isinstance(r, OffsetsPublished) and r.delay_seconds is not None
    ]
    lengths = [batch.batch_seconds for batch in batches]
    return SparkMeasures(
        trigger_seconds=every[0].trigger_seconds if every else None,
        batches=len(batches),
        batch_seconds=_median(lengths),
        batch_max_seconds=max(lengths, default=None),
        batches_over_trigger=sum(b.batch_seconds > b.trigger_seconds for b in batches),
        input_rows_per_second=_median([b.input_rows_per_second for b in batches]),
        processed_rows_per_second=_median([b.processed_rows_per_second for b in batches]),
        tasks=len(tasks),
        tasks_recomputed=len(again),
        rows_recomputed=sum(task.rows for task in again),
        task_seconds=sum((task.at - task.started_at) / NANOSECONDS for task in tasks),
        # Between two batches the count is that of the earlier one.
        executor_seconds=None
        if len(every) < 2
        else sum(a.executors * (b.at - a.at) / NANOSECONDS for a, b in pairwise(every)),
        publish_delay_seconds=_median(delays),
        publish_delay_max_seconds=max(delays, default=None),
        driver_starts=len(starts),
        findings=published_findings(records),
    )


def published_findings(records: Sequence[TelemetryRecord]) -> tuple[str, ...]:
    """Return how the group's offsets differed from the checkpoint after a restart of the driver.

    The driver continues from its checkpoint. If the group shows more, the trigger saw less lag than
    there was; if it shows less, more.
    """
    starts = sorted((r for r in records if isinstance(r, SparkDriverStarted)), key=lambda r: r.at)
    found = []
    for number, start in enumerate(starts[1:], start=1):
        if start.checkpointed is None:
            found.append(f"restart {number} of the driver found no committed batch")
            continue
        behind = _difference(start.checkpointed, start.published)
        ahead = _difference(start.published, start.checkpointed)
        if behind or ahead:
            found.append(
                f"after restart {number} of the driver the published offsets were {behind:,} "
                f"messages behind its checkpoint and {ahead:,} ahead of it"
            )
    return tuple(found)


def repeats_text(repeats_by_batch: Mapping[str, int] | None) -> str:
    """Return a sentence on the batches whose messages were done again; empty: none."""
    if not repeats_by_batch:
        return ""
    total, count = sum(repeats_by_batch.values()), len(repeats_by_batch)
    worst = max(repeats_by_batch, key=lambda batch: repeats_by_batch[batch])
    where = f"batch {worst}" if count == 1 else f"{count} batches"
    most = "" if count == 1 else f", most in batch {worst} ({repeats_by_batch[worst]:,})"
    return f"Spark did {total:,} messages of {where} again{most}"


def _difference(of: Mapping[str, int], over: Mapping[str, int]) -> int:
    return sum(max(0, at - over.get(partition, 0)) for partition, at in of.items())


def _recomputed(tasks: Sequence[SparkTask]) -> list[SparkTask]:
    seen: Counter[tuple[int, int]] = Counter()
    again = []
    for task in tasks:
        place = (task.batch, task.partition)
        if task.attempt or seen[place]:
            again.append(task)
        seen[place] += 1
    return again


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
