"""Account for every message of a run by its identity.

Summaries find where anything may be wrong; only those blocks are read message by message. A clean
run costs a few scans and no shuffle of messages.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bench_spark import schemas
from bench_spark.fence import Fence
from bench_spark.run_facts import FACT_KINDS, RunFacts, facts_of
from bench_spark.run_folder import RunFolder
from bench_spark.suspicion import Suspicion, suspect
from bench_spark.totals import BadCount, Counts, totals
from bench_spark.transforms import bad_messages as shape
from bench_spark.transforms.blocks import rows_in
from bench_spark.transforms.identity import unknown, unprocessed
from bench_spark.transforms.order import reordered
from bench_spark.transforms.ownership import zombies
from bench_spark.transforms.production import not_in_log, produced_twice
from bench_spark.work import Work

_MOST_ROWS_WRITTEN = 100_000
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_PERCENTILE_ACCURACY = 10_000
_NANOSECONDS = 1_000_000_000


def account(folder: RunFolder, work: Work, fence: Fence) -> dict[str, Any]:
    """Write the table bad_messages and ``accounting.json``; return the latter's content."""
    events = folder.read_table("events", schemas.EVENTS)
    facts = _read_facts(folder)
    suspicion = suspect(events, work, facts, fence.messages)
    bad = _bad_messages(events, work, suspicion, facts, fence)
    counts = Counts(
        log=suspicion.log,
        processed_by_pod=suspicion.processed_by_pod,
        duplicated_messages=_duplicated_messages(work),
        time_lag_seconds=_time_lag(work.processed),
        bad=_write_bad(folder, bad),
    )
    content = totals(counts, facts, fence)
    folder.write_json("accounting.json", content)
    return content


def _read_facts(folder: RunFolder) -> RunFacts:
    telemetry = folder.read_table("telemetry", schemas.TELEMETRY)
    rows = telemetry.filter(F.col("kind").isin(*FACT_KINDS)).select("record").collect()
    return facts_of(row["record"] for row in rows)


def _bad_messages(
    events: DataFrame, work: Work, suspicion: Suspicion, facts: RunFacts, fence: Fence
) -> DataFrame | None:
    """Return rows of ``schemas.BAD_MESSAGES``; None: there is nothing to suspect."""
    processed = work.processed
    bad: list[DataFrame] = []
    excluded: list[DataFrame] = [processed.limit(0)]
    if suspicion.identity is not None:
        log_rows = rows_in(events, suspicion.identity, "offset")
        work_rows = rows_in(processed, suspicion.identity, "offset")
        strangers = unknown(log_rows, work_rows).persist()
        excluded.append(strangers)
        bad.append(shape.from_log(unprocessed(log_rows, work_rows, fence.committed)))
        bad.append(shape.from_unknown(strangers))
    if work.repeats is not None:
        excluded.append(work.repeats.select(*processed.columns))
        bad.append(shape.from_repeats(work.repeats))
    if suspicion.disorder is not None:
        without_order = reduce(DataFrame.union, excluded)
        bad.append(shape.from_reordered(reordered(processed, suspicion.disorder, without_order)))
    if suspicion.ownership is not None:
        owned = suspicion.ownership
        late = zombies(processed, owned.overdue, owned.spans, owned.rivals)
        bad.append(shape.from_zombies(late))
    if suspicion.seqs is not None:
        twice = produced_twice(events, suspicion.seqs)
        missing = not_in_log(events, suspicion.seqs, suspicion.produced)
        bad.append(shape.from_production(twice, missing, _doubt(facts)))
    return shape.with_causes(reduce(DataFrame.union, bad), facts.causes).persist() if bad else None


def _doubt(facts: RunFacts) -> str:
    if not (facts.failed or facts.unknown):
        return ""
    return f" (or one of {facts.failed} failed and {facts.unknown} unknown deliveries)"


def _write_bad(folder: RunFolder, bad: DataFrame | None) -> list[BadCount]:
    """Write at most 100,000 rows, a fair share of each class; return the true counts."""
    if bad is None:
        nothing = folder.session.createDataFrame([], schemas.BAD_MESSAGES)
        folder.write_table("bad_messages", schemas.BAD_MESSAGES, nothing)
        return []
    grouped = bad.groupBy("class", "cause", "pod").agg(F.count(F.lit(1)).alias("count"))
    counted = [BadCount(*row) for row in grouped.collect()]
    if sum(part.messages for part in counted) > _MOST_ROWS_WRITTEN:
        kinds = sorted({part.kind for part in counted})
        share = _MOST_ROWS_WRITTEN // len(kinds)
        of_class = [bad.filter(F.col("class") == kind).limit(share) for kind in kinds]
        bad = reduce(DataFrame.union, of_class)
    folder.write_table("bad_messages", schemas.BAD_MESSAGES, bad)
    return counted


def _duplicated_messages(work: Work) -> int:
    if work.repeats is None:
        return 0
    return work.repeats.select("partition", "offset", "seq").distinct().count()


def _time_lag(processed: DataFrame) -> dict[str, float | None]:
    """Return percentiles of done_at - planned_at over every processing, in seconds."""
    lag = F.col("done_at") - F.col("planned_at")
    ranks = F.percentile_approx(lag, list(_PERCENTILES.values()), _PERCENTILE_ACCURACY)
    row = processed.agg(ranks.alias("ranks"), F.max(lag).alias("max")).first()
    if row is None or row["max"] is None:
        return dict.fromkeys([*_PERCENTILES, "max"])
    named = dict(zip(_PERCENTILES, row["ranks"], strict=True)) | {"max": row["max"]}
    return {name: value / _NANOSECONDS for name, value in named.items()}
