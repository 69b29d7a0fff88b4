"""How late messages were done: percentiles of done_at - planned_at, in seconds.

The sample is what the scenario planned for its own stretch; how long the tail after it went on says
nothing of the policy, so it is told apart.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bench_spark.transforms.telemetry_rows import stream_started_at
from bench_spark.work import Work

_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_ACCURACY = 10_000
_NANOSECONDS = 1_000_000_000

Percentiles = dict[str, float | None]


def time_lag(work: Work) -> tuple[Percentiles, Percentiles | None]:
    """Return the percentiles of the sample, and of what was planned after it (None: nothing)."""
    started_at, sample_ns = _started_at(work), work.facts.plan.sample_ns
    if started_at is None or sample_ns is None:
        return _percentiles(work.processed), None
    is_sample = F.coalesce(F.col("planned_at") < F.lit(started_at + sample_ns), F.expr("true"))
    after = _percentiles(work.processed.filter(~is_sample))
    is_empty = after["max"] is None
    return _percentiles(work.processed.filter(is_sample)), None if is_empty else after


def _started_at(work: Work) -> int | None:
    """Return the instant of planned offset 0 on the clock of the processings' planned_at."""
    started_at = work.fence.stream_started_at
    if started_at is None:
        started_at = stream_started_at(work.telemetry)
    producer = work.facts.producer
    if started_at is None or producer is None:
        return started_at
    return work.facts.clocks.on_recorders(started_at, producer)


def _percentiles(processed: DataFrame) -> Percentiles:
    lag = F.try_subtract("done_at", "planned_at")
    ranks = F.percentile_approx(lag, list(_PERCENTILES.values()), _ACCURACY)
    row = processed.agg(ranks.alias("ranks"), F.max(lag).alias("max")).first()
    if row is None or row["max"] is None:
        return dict.fromkeys([*_PERCENTILES, "max"])
    found: dict[str, Any] = dict(zip(_PERCENTILES, row["ranks"], strict=True))
    return {name: value / _NANOSECONDS for name, value in (found | {"max": row["max"]}).items()}
