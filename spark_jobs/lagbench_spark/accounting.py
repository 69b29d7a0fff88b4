"""Account for every message of a run by its identity.

Summaries find the blocks that may be wrong; only those are read message by message, joined with the
log and ordered in windows. A clean run costs no shuffle of messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from lagbench.core.ownership import RunFacts
from lagbench.shared_with_spark import message_classes
from lagbench.shared_with_spark.spark_member import SPARK_MEMBER
from lagbench_spark import schemas
from lagbench_spark.moved import moved_keys
from lagbench_spark.rows import Stranger
from lagbench_spark.summaries import IDENTITY
from lagbench_spark.suspicion import Suspicion, suspect
from lagbench_spark.timelines import draw, message_seconds, time_lag
from lagbench_spark.totals import BadCount, Counts, LogPart, totals
from lagbench_spark.transforms import bad_messages as shape
from lagbench_spark.transforms.blocks import touched
from lagbench_spark.transforms.identity import unknown, unprocessed
from lagbench_spark.transforms.order import ROW, region_blocks, reordered
from lagbench_spark.transforms.ownership import RIVALS, SPANS, zombies
from lagbench_spark.transforms.production import not_in_log, produced_twice
from lagbench_spark.transforms.repeats import repeats_of
from lagbench_spark.unledgered import unledgered_work
from lagbench_spark.work import Work

_MOST_ROWS_WRITTEN = 100_000
_NAMED_STRANGERS = 5


def account(work: Work) -> dict[str, Any]:
    """Write every table but the landed ones, and ``accounting.json``; return the latter."""
    suspicion = suspect(work.logged, work.worked, work.facts, work.fence, work.spans)
    absent, strange = _compared(work, suspicion)
    repeats = _repeats(work, suspicion, strange)
    bad = _bad_messages(work, suspicion, absent, strange, repeats)
    in_log = work.foreign()
    content = totals(
        Counts(
            log=suspicion.log,
            foreign_log=_foreign_log(work),
            processed_by_pod=_processed_by_pod(work, suspicion),
            processed_foreign=work.count("aside", "stranger"),
            duplicated_messages=_distinct_messages(repeats),
            repeats_by_batch=_repeats_by_batch(repeats),
            outside_run=work.count("odd", "outside"),
            strangers=_strangers(work, in_log),
            foreign_records={
                message_classes.FOREIGN_LEDGER: work.count("odd", "foreign"),
                message_classes.FOREIGN_TELEMETRY: len(work.strangers) + work.facts.strangers,
            },
            unknown_ownership=suspicion.unknown_ownership,
            unbounded_pods=suspicion.unbounded_pods,
            unledgered=unledgered_work(work),
            time_lag=time_lag(work),
            message_seconds=message_seconds(work),
            bad=_write_bad(work, bad),
            moved_keys=moved_keys(work, suspicion, repeats),
        ),
        work.facts,
        work.fence,
    )
    is_lost = F.col("class") == message_classes.LOST
    draw(work, repeats, None if absent is None else absent.filter(is_lost))
    work.folder.write_json("accounting.json", content)
    return content


def _bad_messages(
    work: Work,
    suspicion: Suspicion,
    absent: DataFrame | None,
    strange: DataFrame | None,
    repeats: DataFrame | None,
) -> DataFrame | None:
    """Return rows of ``schemas.BAD_MESSAGES``; None: no suspicion."""
    excluded = [] if strange is None else [strange]
    if repeats is not None:
        excluded.append(repeats.select(*schemas.PROCESSED.names))
    unknown_work = [part for part in (strange, work.beyond()) if part is not None]
    bad = [
        *([] if absent is None else [shape.from_log(absent)]),
        *(shape.from_unknown(part) for part in unknown_work),
        *([] if repeats is None else [shape.from_repeats(repeats)]),
        *_failed(work, excluded),
        *_reordered(work, suspicion, excluded),
        *_zombies(work, suspicion),
        *_production(work, suspicion),
        *(shape.from_foreign(part) for part in (work.foreign(),) if part is not None),
    ]
    if not bad:
        return None
    return shape.with_causes(reduce(DataFrame.union, bad), work.facts.causes).persist()


def _compared(work: Work, suspicion: Suspicion) -> tuple[DataFrame | None, DataFrame | None]:
    """Return the log's messages without a processing, and the processings that it does not hold."""
    if suspicion.identity is None:
        return None, None
    log_rows = work.events(suspicion.identity).persist()
    work_rows = work.processed(suspicion.identity).persist()
    absent = unprocessed(log_rows, work_rows, work.fence.committed)
    return absent.persist(), unknown(log_rows, work_rows).persist()


def _repeats(work: Work, suspicion: Suspicion, strange: DataFrame | None) -> DataFrame | None:
    """Return the processings beyond the first; one that the log lacks is of another class."""
    if suspicion.repeats is None:
        return None
    shared = touched(suspicion.repeats, "from_offset", "to_offset")
    repeats = repeats_of(work.processed(shared))
    if strange is not None:
        on = list(IDENTITY)
        repeats = repeats.join(strange.select(*on).distinct(), on=on, how="left_anti")
    return repeats.persist()


def _failed(work: Work, excluded: Sequence[DataFrame]) -> Iterator[DataFrame]:
    if work.count("odd", "failed"):
        failed = work.processed(where="failed_attempts IS NOT NULL")
        yield shape.from_failed(_without(failed, excluded))


def _reordered(
    work: Work, suspicion: Suspicion, excluded: Sequence[DataFrame]
) -> Iterator[DataFrame]:
    if suspicion.disorder is not None:
        late = reordered(
            _without(work.processed(), excluded),
            *(work.table(blocks) for blocks in region_blocks(suspicion.disorder)),
            slack_ns=suspicion.slack_ns,
            unbounded_pods=suspicion.unbounded_pods,
        )
        yield shape.from_reordered(late)


def _zombies(work: Work, suspicion: Suspicion) -> Iterator[DataFrame]:
    owned = suspicion.ownership
    if owned is not None:
        late = zombies(
            work.processed(touched(owned.overdue, "first_offset", "last_offset")),
            work.table(owned.overdue),
            work.folder.session.createDataFrame(owned.spans, SPANS),
            work.folder.session.createDataFrame(owned.rivals, RIVALS),
        )
        yield shape.from_zombies(late)


def _production(work: Work, suspicion: Suspicion) -> Iterator[DataFrame]:
    if suspicion.seqs is not None:
        in_blocks = work.events(suspicion.seqs, "seq")
        missing = not_in_log(
            in_blocks,
            work.table(suspicion.seqs),
            suspicion.produced,
            failed=work.facts.failed_seqs or (),
            unknown=work.facts.unknown_seqs or (),
        )
        twice = produced_twice(in_blocks)
        yield shape.from_production(twice, missing, _doubt(work.facts))


def _without(rows: DataFrame, excluded: Sequence[DataFrame]) -> DataFrame:
    """Return the processings without those of another class."""
    if not excluded:
        return rows
    beside = reduce(DataFrame.union, excluded).select(*ROW)
    return rows.join(beside, on=ROW, how="left_anti")


def _doubt(facts: RunFacts) -> str:
    if facts.failed_seqs is not None and facts.unknown_seqs is not None:
        return ""
    return f" (or one of {facts.failed} failed and {facts.unknown} unknown deliveries)"


def _write_bad(work: Work, bad: DataFrame | None) -> list[BadCount]:
    """Write at most 100,000 rows, a fair share of each class; return the true counts."""
    folder = work.folder
    if bad is None:
        folder.write_rows("bad_messages", schemas.BAD_MESSAGES, [])
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
    if "aside" in work.worked:
        for row in work.worked["aside"].to_pylist():
            counts[row["pod"]] += row["count"]
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
    return {
        partition: LogPart(len(offsets), int(offsets[0]))
        for partition, offsets in work.rules.strangers.items()
    }


def _strangers(work: Work, in_log: DataFrame | None) -> list[Stranger]:
    """Return the first records of each topic that do not belong to the run."""
    found: list[Stranger] = []
    if in_log is not None:
        first = in_log.orderBy("partition", "offset").limit(_NAMED_STRANGERS)
        chosen = first.select("partition", "offset", "detail").collect()
        found += [Stranger("events", *row) for row in chosen]
    if "unreadable" in work.worked:
        rows = work.worked["unreadable"].to_pylist()
        found += [Stranger("processed", *row.values()) for row in rows]
    places = sorted(work.strangers, key=lambda one: (one.partition or -1, one.offset or -1))
    return found + places[:_NAMED_STRANGERS]
