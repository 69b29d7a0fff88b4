"""Account for every message of a run by its identity.

Summaries find the blocks that may be wrong; only those are read message by message. A clean
run costs a few scans and no shuffle of messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from lagbench.shared_with_spark import message_classes
from lagbench.shared_with_spark.spark_member import SPARK_MEMBER
from lagbench_spark import schemas
from lagbench_spark.moved import moved_keys
from lagbench_spark.run_facts import RunFacts
from lagbench_spark.run_folder import RunFolder
from lagbench_spark.session import at_once
from lagbench_spark.suspicion import Suspicion, suspect
from lagbench_spark.time_lag import time_lag
from lagbench_spark.totals import BadCount, Counts, LogPart, Stranger, totals
from lagbench_spark.transforms import bad_messages as shape
from lagbench_spark.transforms.blocks import rows_in
from lagbench_spark.transforms.digests import IDENTITY
from lagbench_spark.transforms.identity import unknown, unprocessed
from lagbench_spark.transforms.order import ROW, reordered
from lagbench_spark.transforms.ownership import zombies
from lagbench_spark.transforms.production import not_in_log, produced_twice
from lagbench_spark.unledgered import unledgered_work
from lagbench_spark.work import Work

_MOST_ROWS_WRITTEN = 100_000
_NAMED_STRANGERS = 5


def account(work: Work) -> dict[str, Any]:
    """Write the table bad_messages and ``accounting.json``; return the latter's content."""
    (suspicion, repeats, bad, moved), unledgered, lag, (strangers, foreign_records) = at_once(
        lambda: _suspected(work),
        lambda: unledgered_work(work),
        lambda: time_lag(work),
        lambda: (_strangers(work), _foreign_records(work)),
    )
    counts = Counts(
        log=suspicion.log,
        foreign_log=_foreign_log(work),
        processed_by_pod=_processed_by_pod(work, suspicion),
        processed_foreign=0 if work.strangers.work is None else work.strangers.work.count(),
        duplicated_messages=_distinct_messages(repeats),
        repeats_by_batch=_repeats_by_batch(repeats),
        outside_run=work.outside_run,
        strangers=strangers,
        foreign_records=foreign_records,
        unknown_ownership=suspicion.unknown_ownership,
        unbounded_pods=suspicion.unbounded_pods,
        unledgered=unledgered,
        time_lag=lag,
        bad=_write_bad(work.folder, bad),
        moved_keys=moved,
    )
    content = totals(counts, work.facts, work.fence)
    work.folder.write_json("accounting.json", content)
    return content


def _suspected(
    work: Work,
) -> tuple[Suspicion, DataFrame | None, DataFrame | None, dict[str, Any] | None]:
    """Return the suspicion, the repeats, the bad messages and the totals of the moved keys."""
    suspicion = suspect(work)
    return suspicion, *_bad_messages(work, suspicion), moved_keys(work, suspicion)


def _failed(work: Work, excluded: Sequence[DataFrame]) -> list[DataFrame]:
    """Return the messages that were given up, without those of another class."""
    if work.failed is None:
        return []
    beside = reduce(DataFrame.union, excluded).select(*ROW)
    return [shape.from_failed(work.failed.join(beside, on=ROW, how="left_anti"))]


def _bad_messages(work: Work, suspicion: Suspicion) -> tuple[DataFrame | None, DataFrame | None]:
    """Return the repeats, and rows of ``schemas.BAD_MESSAGES``; None: no suspicion."""
    processed, facts, repeats = work.processed, work.facts, work.repeats
    bad: list[DataFrame] = []
    excluded: list[DataFrame] = [processed.limit(0)]
    if suspicion.identity is not None:
        log_rows = rows_in(work.events, suspicion.identity, "offset")
        work_rows = rows_in(processed, suspicion.identity, "offset")
        strange = unknown(log_rows, work_rows).persist()
        excluded.append(strange)
        bad.append(shape.from_log(unprocessed(log_rows, work_rows, work.fence.committed)))
        bad.append(shape.from_unknown(strange))
        if repeats is not None:  # a processing that the log lacks is in one class
            places = strange.select(*IDENTITY).distinct()
            repeats = repeats.join(places, on=list(IDENTITY), how="left_anti").persist()
    if repeats is not None:
        excluded.append(repeats.select(*processed.columns))
        bad.append(shape.from_repeats(repeats))
    bad += _failed(work, excluded)
    if suspicion.disorder is not None:
        late = reordered(
            processed,
            suspicion.disorder,
            reduce(DataFrame.union, excluded),
            slack_ns=suspicion.slack_ns,
            unbounded_pods=suspicion.unbounded_pods,
        )
        bad.append(shape.from_reordered(late))
    if suspicion.ownership is not None:
        owned = suspicion.ownership
        late = zombies(processed, owned.overdue, owned.spans, owned.rivals)
        bad.append(shape.from_zombies(late))
    if suspicion.seqs is not None:
        twice = produced_twice(work.events, suspicion.seqs)
        missing = not_in_log(
            work.events,
            suspicion.seqs,
            suspicion.produced,
            failed=facts.failed_seqs or (),
            unknown=facts.unknown_seqs or (),
        )
        bad.append(shape.from_production(twice, missing, _doubt(facts)))
    if work.strangers.beyond is not None:
        bad.append(shape.from_unknown(work.strangers.beyond))
    if work.strangers.in_log is not None:
        bad.append(shape.from_foreign(work.strangers.in_log))
    if not bad:
        return repeats, None
    return repeats, shape.with_causes(reduce(DataFrame.union, bad), facts.causes).persist()


def _doubt(facts: RunFacts) -> str:
    if facts.failed_seqs is not None and facts.unknown_seqs is not None:
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


def _processed_by_pod(work: Work, suspicion: Suspicion) -> dict[str, int]:
    """Return the processings of each pod, including strangers."""
    counts = Counter(suspicion.processed_by_pod)
    for rows in (work.strangers.work, work.strangers.beyond):
        if rows is not None:
            counts.update(
                {row["pod"]: row["count"] for row in rows.groupBy("pod").count().collect()}
            )
    return dict(counts)


def _distinct_messages(repeats: DataFrame | None) -> int:
    if repeats is None:
        return 0
    return repeats.select("partition", "offset", "seq").distinct().count()


def _repeats_by_batch(repeats: DataFrame | None) -> dict[str, int] | None:
    """Return the repeats of each micro-batch, by the name of the task that did them again."""
    if repeats is None:
        return None
    batch = F.regexp_extract("member_id", SPARK_MEMBER, 1).alias("batch")
    counted = repeats.groupBy(batch).count().filter("batch != ''").collect()
    return {row["batch"]: row["count"] for row in sorted(counted, key=_batch_number)} or None


def _batch_number(row: Row) -> int:
    return int(row["batch"])


def _foreign_log(work: Work) -> dict[int, LogPart]:
    if work.strangers.in_log is None:
        return {}
    parts = work.strangers.in_log.groupBy("partition").agg(
        F.count(F.lit(1)).alias("messages"), F.min("offset").alias("first_offset")
    )
    return {
        row["partition"]: LogPart(row["messages"], row["first_offset"]) for row in parts.collect()
    }


def _foreign_records(work: Work) -> dict[str, int]:
    """Return the numbers of foreign records in ledger and telemetry."""
    ledger, telemetry = work.strangers.in_ledger, _no_telemetry(work)
    return {
        message_classes.FOREIGN_LEDGER: 0 if ledger is None else ledger.count(),
        message_classes.FOREIGN_TELEMETRY: telemetry.count() + work.facts.strangers,
    }


def _strangers(work: Work) -> list[Stranger]:
    """Return the first records of each topic that do not belong to the run."""
    found = []
    places = {"events": work.strangers.in_log, "processed": work.strangers.in_ledger}
    for topic, rows in {**places, "telemetry": _no_telemetry(work)}.items():
        if rows is not None:
            first = rows.orderBy("partition", "offset").limit(_NAMED_STRANGERS)
            chosen = first.select("partition", "offset", "detail").collect()
            found += [Stranger(topic, *row) for row in chosen]
    return found


def _no_telemetry(work: Work) -> DataFrame:
    is_record = F.col("at").isNotNull() & F.col("source").isNotNull() & F.col("kind").isNotNull()
    size = F.octet_length("record").cast("string")
    detail = F.concat(F.lit("a text of "), size, F.lit(" bytes that is not a record"))
    return work.telemetry.filter(~is_record).select("partition", "offset", detail.alias("detail"))
