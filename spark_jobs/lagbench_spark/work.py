"""Read a landed run with the summaries that accounting and timeline both need.

Strangers are separated first: records that are not events of the run, their processings, and
records that are not ledger records. Then stamps are moved to the recorder's clock, as far as the
clock of their pod is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lagbench_spark import schemas
from lagbench_spark.epochs import Span, spans_of
from lagbench_spark.fence import Fence
from lagbench_spark.run_facts import FACT_KINDS, RunFacts, facts_of
from lagbench_spark.run_folder import RunFolder
from lagbench_spark.session import at_once
from lagbench_spark.transforms.foreign import foreign_events, own_events, work_on
from lagbench_spark.transforms.repeats import overlaps, repeats
from lagbench_spark.transforms.work_runs import work_runs

_IS_FAILED = "failed_attempts IS NOT NULL"
_STAMPS = ("started_at", "done_at")
_MARGIN_NS = 60_000_000_000
_LONGEST_RUN_NS = 4 * 86_400 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class Strangers:
    """Records that do not belong to this run, by topic; None: there are none.

    ``in_log`` has partition, offset, size_bytes, detail; ``in_ledger`` partition, offset, detail.
    ``work`` (processings of ``in_log``) and ``beyond`` (of places that the log never had below the
    fence) are rows of ``schemas.PROCESSED``.
    """

    in_log: DataFrame | None
    in_ledger: DataFrame | None
    work: DataFrame | None
    beyond: DataFrame | None


@dataclass(frozen=True, slots=True)
class Work:
    """A run's events and processings (rows of their schemas), the runs of work, the repeats.

    ``repeats`` None: there are none. ``failed`` are the processings that ended in a dead letter;
    None: there are none. ``window`` is the time in which the run can have worked, unix
    ns; ``outside_run`` processings were stamped outside of it, and are moved to its edge.
    """

    folder: RunFolder
    fence: Fence
    facts: RunFacts
    events: DataFrame
    processed: DataFrame
    strangers: Strangers
    spans: Sequence[Span]
    runs: DataFrame
    repeats: DataFrame | None
    failed: DataFrame | None
    window: tuple[int, int] | None
    outside_run: int

    @property
    def telemetry(self) -> DataFrame:
        """Rows of ``schemas.TELEMETRY``, each with its source's stamp."""
        return self.folder.read_table("telemetry", schemas.TELEMETRY)


def read_work(folder: RunFolder, fence: Fence) -> Work:
    """Return the run's work; the summaries are kept in cache."""
    facts = _read_facts(folder, fence)
    logged = folder.read_table("events", schemas.EVENTS)
    ledger = folder.read_table("processed", schemas.PROCESSED)
    window = _window(folder, fence, facts)
    whole = _on_recorders_clock(ledger, facts)
    foreign: DataFrame | None = foreign_events(logged, facts.plan).persist()
    odd, is_pure = at_once(lambda: _odd_rows(whole, fence, window), foreign.isEmpty)
    no_ledger = _no_ledger(ledger).persist() if odd["foreign"] else None
    if odd["foreign"]:
        whole = whole.filter(F.col("foreign").isNull())
    if window is not None and odd["outside"]:
        whole = whole.withColumns({name: _clamped(name, window) for name in _STAMPS})
    is_below = _is_below(fence)
    processed = whole.filter(is_below) if odd["beyond"] else whole
    if is_pure:
        foreign = None
    strangers = Strangers(
        in_log=foreign,
        in_ledger=no_ledger,
        work=None if foreign is None else work_on(processed, foreign, is_foreign=True).persist(),
        beyond=whole.filter(~is_below).persist() if odd["beyond"] else None,
    )
    if foreign is not None:
        processed = work_on(processed, foreign, is_foreign=False)
    # Every later use of the runs is by partition: shuffled once, for all of them.
    files = int(str(folder.session.conf.get("spark.sql.shuffle.partitions")))
    spans = spans_of(facts.holdings, fence.events)
    starts: dict[tuple[int, str], list[int]] = defaultdict(list)
    for span in spans:
        starts[span.partition, span.pod].append(span.from_at)
    runs = work_runs(processed, starts).repartition(files, "partition").persist()
    shared = overlaps(runs)
    return Work(
        folder=folder,
        fence=fence,
        facts=facts,
        events=_planned_on_recorders_clock(own_events(logged, facts.plan), facts),
        processed=processed,
        strangers=strangers,
        spans=spans,
        runs=runs,
        failed=processed.filter(_IS_FAILED) if odd["failed"] else None,
        repeats=None if shared.isEmpty() else repeats(processed, shared).persist(),
        window=window,
        outside_run=odd["outside"],
    )


def _read_facts(folder: RunFolder, fence: Fence) -> RunFacts:
    telemetry = folder.read_table("telemetry", schemas.TELEMETRY)
    rows = telemetry.filter(F.col("kind").isin(*FACT_KINDS)).select("record").collect()
    manifest = folder.read_json("manifest.json") if folder.has("manifest.json") else {}
    return facts_of(
        (row["record"] for row in rows),
        fidelity=manifest.get("fidelity"),
        are_silent=fence.accounting is not None,
    )


def _on_recorders_clock(processed: DataFrame, facts: RunFacts) -> DataFrame:
    """Subtract from each stamp the known lead of its pod's clock."""
    shifts = facts.clocks.shifts
    if not shifts:
        return processed
    columns: dict[str, Column] = {
        name: F.coalesce(F.try_subtract(name, _shift_of(F.col("pod"), shifts)), name)
        for name in _STAMPS
    }
    return _planned_on_recorders_clock(processed.withColumns(columns), facts)


def _planned_on_recorders_clock(rows: DataFrame, facts: RunFacts) -> DataFrame:
    """Subtract from the planned instants the known lead of the producer's clock."""
    shift_ns = facts.clocks.shifts.get(facts.producer or "")
    if not shift_ns:
        return rows
    return rows.withColumn("planned_at", F.try_subtract("planned_at", F.lit(shift_ns)))


def _shift_of(pod: Column, shifts: Mapping[str, int]) -> Column:
    pairs = [F.lit(part) for item in sorted(shifts.items()) for part in item]
    return F.coalesce(F.try_element_at(F.create_map(*pairs), pod), F.lit(0))


def _is_within(window: tuple[int, int]) -> Column:
    return F.col("started_at").between(*window) & F.col("done_at").between(*window)


def _clamped(name: str, window: tuple[int, int]) -> Column:
    """Return a stamp clamped to the run: one of a garbled row could be at any time."""
    first, last = window
    return F.greatest(F.least(F.col(name), F.lit(last)), F.lit(first))


def _is_below(fence: Fence) -> Column:
    """Return whether a row's place is below the fence: no other can be of a message of the run."""
    pairs = [F.lit(part) for item in sorted(fence.events.items()) for part in item]
    if not pairs:
        return F.expr("false")
    end = F.coalesce(F.try_element_at(F.create_map(*pairs), F.col("partition")), F.lit(0))
    return (F.col("offset") >= 0) & (F.col("offset") < end)


def _no_ledger(ledger: DataFrame) -> DataFrame:
    return ledger.filter(F.col("foreign").isNotNull()).select(
        F.col("ledger_partition").alias("partition"),
        F.col("ledger_offset").alias("offset"),
        F.col("foreign").alias("detail"),
    )


def _odd_rows(whole: DataFrame, fence: Fence, window: tuple[int, int] | None) -> dict[str, int]:
    """Count rows: no ledger records, beyond the fence, outside the run, dead letters: one scan."""
    is_ledger = F.col("foreign").isNull()
    is_outside = F.expr("false") if window is None else ~_is_within(window)
    row = whole.agg(
        F.count_if(~is_ledger).alias("foreign"),
        F.count_if(is_ledger & ~_is_below(fence)).alias("beyond"),
        F.count_if(is_ledger & is_outside).alias("outside"),
        F.count_if(F.expr(_IS_FAILED)).alias("failed"),
    ).first()
    return {} if row is None else row.asDict()


def _window(folder: RunFolder, fence: Fence, facts: RunFacts) -> tuple[int, int] | None:
    """Return the time from a minute before the stream's start until a minute after the fence.

    Without a fence's instant the run lasts until its last telemetry, four days at most.
    """
    started_at = fence.stream_started_at
    telemetry = folder.read_table("telemetry", schemas.TELEMETRY)
    if started_at is None:
        first = telemetry.filter(F.col("kind") == "stream_started").agg(F.min("at")).first()
        started_at = None if first is None else first[0]
    ended_at = fence.fenced_at
    if ended_at is None:
        last = telemetry.agg(F.max("at")).first()
        ended_at = None if last is None else last[0]
    if started_at is None or ended_at is None:
        return None
    plan_ns = facts.plan.offset_ns or 0
    ended_at = min(max(ended_at, started_at + plan_ns), started_at + _LONGEST_RUN_NS)
    return started_at - _MARGIN_NS, ended_at + _MARGIN_NS
