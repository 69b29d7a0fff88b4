"""Account for every message of a run by its identity.

Summaries find where anything may be wrong; only those blocks are read message by message. A clean
run costs three scans and no shuffle of messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from bench_spark import schemas
from bench_spark.fence import Fence
from bench_spark.run_facts import FACT_KINDS, RunFacts, facts_of
from bench_spark.run_folder import RunFolder
from bench_spark.totals import BadCount, Counts, LogPart, totals
from bench_spark.transforms import bad_messages as shape
from bench_spark.transforms.blocks import rows_in
from bench_spark.transforms.digests import differing, message_digests
from bench_spark.transforms.identity import unknown, unprocessed
from bench_spark.transforms.order import disorder, reordered
from bench_spark.transforms.ownership import (
    assignment_spans,
    overdue_runs,
    rivals,
    with_epochs,
    zombies,
)
from bench_spark.transforms.production import differing_seqs, not_in_log, produced_twice
from bench_spark.work import Work
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

_MOST_ROWS_WRITTEN = 100_000
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_PERCENTILE_ACCURACY = 10_000
_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Suspicion:
    """Where to look closely (all cached), and what is needed there."""

    identity: DataFrame
    seqs: DataFrame
    disorder: DataFrame
    overdue: DataFrame
    spans: DataFrame
    later_owners: DataFrame
    produced: int


def account(folder: RunFolder, work: Work, fence: Fence) -> dict[str, Any]:
    """Write the table bad_messages and ``accounting.json``; return the latter's content."""
    events = folder.read_table("events", schemas.EVENTS)
    facts = read_facts(folder)
    log_digests = message_digests(events).persist()
    suspicion = _suspicion(events, log_digests, work, facts, fence)
    found = _count_suspicions(suspicion, work)
    bad = _bad_messages(events, work, suspicion, facts, fence, found)
    counted = _write_bad(folder, bad)
    repeated = work.repeats.select("partition", "offset", "seq").distinct()
    counts = Counts(
        log=_log_parts(log_digests),
        processed_by_pod=_processed_by_pod(work.runs),
        duplicated_messages=repeated.count() if found["shared"] else 0,
        time_lag_seconds=_time_lag(work.processed),
        bad=counted,
    )
    content = totals(counts, facts, fence)
    folder.write_json("accounting.json", content)
    return content


def read_facts(folder: RunFolder) -> RunFacts:
    """Return the facts in the run's telemetry."""
    telemetry = folder.read_table("telemetry", schemas.TELEMETRY)
    rows = telemetry.filter(F.col("kind").isin(*FACT_KINDS)).select("record").collect()
    return facts_of(row["record"] for row in rows)


def _suspicion(
    events: DataFrame, log_digests: DataFrame, work: Work, facts: RunFacts, fence: Fence
) -> _Suspicion:
    spans = assignment_spans(_assignments(events.sparkSession, facts)).persist()
    epochs = with_epochs(work.runs, spans).persist()
    later_owners = rivals(epochs, spans).persist()
    # Without the producer's last word, a hole among as many seqs as the log has is still seen.
    parts = (facts.acked, facts.failed, facts.unknown)
    known = [part for part in parts if part is not None]
    produced = sum(known) if len(known) == len(parts) else fence.messages
    return _Suspicion(
        identity=differing(
            log_digests, message_digests(work.processed), ["partition", "block"]
        ).persist(),
        seqs=differing_seqs(events.sparkSession, events, produced).persist(),
        disorder=disorder(work.runs).persist(),
        overdue=overdue_runs(epochs, later_owners).persist(),
        spans=spans,
        later_owners=later_owners,
        produced=produced,
    )


def _assignments(session: SparkSession, facts: RunFacts) -> DataFrame:
    return session.createDataFrame(facts.assignments, "partition int, pod string, at bigint")


def _count_suspicions(suspicion: _Suspicion, work: Work) -> Mapping[str, int]:
    """Return how many places each suspicion has: one action fills every cache."""
    places = {
        "identity": suspicion.identity,
        "seqs": suspicion.seqs,
        "disorder": suspicion.disorder,
        "overdue": suspicion.overdue,
        "shared": work.shared_blocks,
    }
    counts = [
        table.agg(F.lit(name).alias("name"), F.count(F.lit(1)).alias("count"))
        for name, table in places.items()
    ]
    return {row["name"]: row["count"] for row in reduce(DataFrame.union, counts).collect()}


def _bad_messages(
    events: DataFrame,
    work: Work,
    suspicion: _Suspicion,
    facts: RunFacts,
    fence: Fence,
    found: Mapping[str, int],
) -> DataFrame | None:
    """Return rows of ``schemas.BAD_MESSAGES``; None: there is nothing to suspect."""
    processed, bad = work.processed, []
    unknown_rows = processed.limit(0)
    if found["identity"]:
        log_rows = rows_in(events, suspicion.identity, "offset")
        work_rows = rows_in(processed, suspicion.identity, "offset")
        unknown_rows = unknown(log_rows, work_rows).persist()
        bad.append(shape.from_log(unprocessed(log_rows, work_rows, fence.committed)))
        bad.append(shape.from_unknown(unknown_rows))
    if found["shared"]:
        bad.append(shape.from_repeats(work.repeats))
    if found["disorder"]:
        excluded = work.repeats.select(*processed.columns).union(unknown_rows)
        bad.append(shape.from_reordered(reordered(processed, suspicion.disorder, excluded)))
    if found["overdue"]:
        late = zombies(processed, suspicion.overdue, suspicion.spans, suspicion.later_owners)
        bad.append(shape.from_zombies(late))
    if found["seqs"]:
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
    kinds = sorted({part.kind for part in counted})
    if sum(part.count for part in counted) > _MOST_ROWS_WRITTEN:
        share = _MOST_ROWS_WRITTEN // len(kinds)
        of_class = [bad.filter(F.col("class") == kind).limit(share) for kind in kinds]
        bad = reduce(DataFrame.union, of_class)
    folder.write_table("bad_messages", schemas.BAD_MESSAGES, bad)
    return counted


def _log_parts(log_digests: DataFrame) -> dict[int, LogPart]:
    rows = log_digests.groupBy("partition").agg(
        F.sum("count").alias("count"), F.min("first_offset").alias("first_offset")
    )
    return {row["partition"]: LogPart(row["count"], row["first_offset"]) for row in rows.collect()}


def _processed_by_pod(runs: DataFrame) -> dict[str, int]:
    length = F.col("last_offset") - F.col("first_offset") + 1
    rows = runs.groupBy("pod").agg(F.sum(length).alias("processed"))
    return {row["pod"]: row["processed"] for row in rows.collect()}


def _time_lag(processed: DataFrame) -> dict[str, float | None]:
    """Return percentiles of done_at - planned_at over every processing, in seconds."""
    lag = F.col("done_at") - F.col("planned_at")
    ranks = F.percentile_approx(lag, list(_PERCENTILES.values()), _PERCENTILE_ACCURACY)
    row = processed.agg(ranks.alias("ranks"), F.max(lag).alias("max")).first()
    if row is None or row["max"] is None:
        return dict.fromkeys([*_PERCENTILES, "max"])
    named = dict(zip(_PERCENTILES, row["ranks"], strict=True)) | {"max": row["max"]}
    return {name: value / _NANOSECONDS for name, value in named.items()}


