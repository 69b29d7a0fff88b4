"""Compute the time lag of messages: percentiles of done_at - planned_at, in seconds.

The sample is the messages that the scenario planned before the tail. The length of the tail
after it says nothing about the policy, so the tail is reported apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from lagbench_spark.transforms.telemetry_rows import stream_started_at
from lagbench_spark.work import Work

_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_ACCURACY = 10_000
_NANOSECONDS = 1_000_000_000

Percentiles = dict[str, float | None]


def time_lag(work: Work) -> tuple[Percentiles, Percentiles | None]:
    """Return the percentiles of the sample, and of messages planned after it (None: none)."""
    started_at, sample_ns = _started_at(work), work.facts.plan.sample_ns
    if started_at is None or sample_ns is None:
        (every,) = _percentiles(work.processed, [F.expr("true")])
        return every, None
    is_sample = F.coalesce(F.col("planned_at") < F.lit(started_at + sample_ns), F.expr("true"))
    sample, after = _percentiles(work.processed, [is_sample, ~is_sample])
    return sample, None if after["max"] is None else after


def _started_at(work: Work) -> int | None:
    """Return the instant of planned offset 0 on the clock of the processings' planned_at."""
    started_at = work.fence.stream_started_at
    if started_at is None:
        started_at = stream_started_at(work.telemetry)
    producer = work.facts.producer
    if started_at is None or producer is None:
        return started_at
    return work.facts.clocks.on_recorders(started_at, producer)


def _percentiles(processed: DataFrame, parts: Sequence[Column]) -> list[Percentiles]:
    """Return the percentiles of each part of the processings, in one scan."""
    columns = []
    for number, is_part in enumerate(parts):
        lag = F.when(is_part, F.try_subtract("done_at", "planned_at"))
        ranks = F.percentile_approx(lag, list(_PERCENTILES.values()), _ACCURACY)
        columns += [ranks.alias(f"ranks_{number}"), F.max(lag).alias(f"max_{number}")]
    row = processed.agg(*columns).first()
    return [_seconds(row, number) for number in range(len(parts))]


def _seconds(row: Row | None, number: int) -> Percentiles:
    if row is None or row[f"max_{number}"] is None:
        return dict.fromkeys([*_PERCENTILES, "max"])
    found: dict[str, Any] = dict(zip(_PERCENTILES, row[f"ranks_{number}"], strict=True))
    named = found | {"max": row[f"max_{number}"]}
    return {name: value / _NANOSECONDS for name, value in named.items()}
