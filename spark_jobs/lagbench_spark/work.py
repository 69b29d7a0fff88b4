"""Read a landed run: its facts, the rules for its rows, and the rows themselves where needed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from lagbench.core.ownership import FACT_KINDS, RunFacts, Span, facts_of, spans_of
from lagbench_spark import schemas
from lagbench_spark.fence import Fence
from lagbench_spark.rows import Ints, Rules, Stranger, each
from lagbench_spark.run_folder import RunFolder
from lagbench_spark.summaries import EventsSummary, Tables, WorkSummary
from lagbench_spark.transforms.blocks import rows_in
from lagbench_spark.transforms.telemetry_rows import stream_started_at

_SAMPLES = ("lag_sample", "replica_sample")
_MARGIN_NS = 60_000_000_000
_LONGEST_RUN_NS = 4 * 86_400 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class Work:
    """A landed run. ``logged`` and ``worked`` are the summaries of its events and processings.

    ``samples``: the recorder's readings as JSON. ``strangers``: records of the telemetry that are
    none, of which the first are named.
    """

    folder: RunFolder
    fence: Fence
    facts: RunFacts
    rules: Rules
    spans: Sequence[Span]
    samples: Sequence[str]
    strangers: Sequence[Stranger]
    logged: Tables = field(default_factory=dict)
    worked: Tables = field(default_factory=dict)

    @property
    def telemetry(self) -> DataFrame:
        """Rows of ``schemas.TELEMETRY``, each with its source's stamp."""
        return self.folder.read_table("telemetry", schemas.TELEMETRY)

    def events(self, blocks: pa.Table | None = None, number: str = "offset") -> DataFrame:
        """Return the run's own rows of ``schemas.EVENTS``, of all or of some blocks."""
        landed = self.folder.read_table("events", schemas.EVENTS)
        if blocks is not None:
            landed = rows_in(landed, self.table(blocks), number)
        return landed.mapInArrow(each(self.rules.own_events), schemas.EVENTS)

    def processed(self, blocks: pa.Table | None = None, where: str | None = None) -> DataFrame:
        """Return the processings of the run's messages, of all or of some blocks of offsets."""
        rules = self.rules
        landed = self.folder.read_table("processed", schemas.PROCESSED)
        if where is not None:
            landed = landed.filter(where)
        if blocks is not None:
            landed = rows_in(landed, self.table(blocks), "offset")
        return landed.mapInArrow(each(lambda batch: rules.work(batch).own), schemas.PROCESSED)

    def beyond(self) -> DataFrame | None:
        """Return the processings of places that the log never had below the fence."""
        if not self.count("aside", "beyond"):
            return None
        rules = self.rules

        def of(batch: pa.RecordBatch) -> pa.RecordBatch:
            work = rules.work(batch)
            return work.rows.filter(pa.array(work.is_beyond))

        landed = self.folder.read_table("processed", schemas.PROCESSED)
        return landed.mapInArrow(each(of), schemas.PROCESSED)

    def foreign(self) -> DataFrame | None:
        """Return partition, offset, size_bytes and detail of records that the run did not send."""
        if not self.rules.strangers:
            return None
        landed = self.folder.read_table("events", schemas.EVENTS)
        columns = "partition int, offset bigint, size_bytes int, detail string"
        return landed.mapInArrow(each(self.rules.foreign_events), columns)

    def count(self, name: str, kind: str) -> int:
        """Return a count of the processings by kind."""
        table = self.worked.get(name)
        if table is None:
            return 0
        return pc.sum(table.filter(pc.equal(table["kind"], kind))["count"]).as_py() or 0

    def table(self, rows: pa.Table) -> DataFrame:
        """Return rows of the driver as a table of Spark."""
        return self.folder.session.createDataFrame(rows)

    def events_summary(self) -> EventsSummary:
        """Return the empty summary of the run's events."""
        return EventsSummary(self.rules)

    def work_summary(self) -> WorkSummary:
        """Return the empty summary of the run's processings; ``logged`` is known."""
        starts: dict[tuple[int, str], list[int]] = defaultdict(list)
        for span in self.spans:
            starts[span.partition, span.pod].append(span.from_at)
        cuts = {owner: np.array(sorted(ats), np.int64) for owner, ats in starts.items()}
        return WorkSummary(self.rules, cuts, self.facts.kills, self._sample_end())

    def _sample_end(self) -> int | None:
        """Return the end of the planned stream, on the clock of the processings' planned_at."""
        started_at, sample_ns = self.fence.stream_started_at, self.facts.plan.sample_ns
        if started_at is None:
            started_at = stream_started_at(self.telemetry)
        if started_at is None or sample_ns is None:
            return None
        if self.facts.producer is not None:
            started_at = self.facts.clocks.on_recorders(started_at, self.facts.producer)
        return started_at + sample_ns

    def with_logged(self, logged: Tables) -> Work:
        """Return the run with the summary of its events, whose strangers are left out of it."""
        found: dict[int, Ints] = {}
        if "strangers" in logged:
            partition, offset = (logged["strangers"][n].to_numpy() for n in ("partition", "offset"))
            found = {int(p): np.sort(offset[partition == p]) for p in np.unique(partition)}
        return replace(self, logged=logged, rules=replace(self.rules, strangers=found))


def read_work(folder: RunFolder, fence: Fence) -> Work:
    """Return the run, whose telemetry has landed, without summaries."""
    telemetry = folder.read_table("telemetry", schemas.TELEMETRY)
    is_record = F.col("at").isNotNull() & F.col("source").isNotNull() & F.col("kind").isNotNull()
    needed = telemetry.select(
        "kind",
        F.when(is_record, F.col("record")).alias("record"),
        "partition",
        "offset",
        F.octet_length("record").alias("size"),
    ).filter(~is_record | F.col("kind").isin(*FACT_KINDS, *_SAMPLES))
    rows = needed.collect()
    manifest = folder.read_json("manifest.json") if folder.has("manifest.json") else {}
    facts = facts_of(
        (row["record"] for row in rows if row["record"] and row["kind"] in FACT_KINDS),
        fidelity=manifest.get("fidelity"),
        are_silent=fence.accounting is not None,
    )
    shifts = facts.clocks.shifts
    rules = Rules(
        plan=facts.plan,
        ends=fence.events,
        window=_window(telemetry, fence, facts),
        pod_shifts=shifts,
        producer_shift=shifts.get(facts.producer or "", 0),
    )
    return Work(
        folder=folder,
        fence=fence,
        facts=facts,
        rules=rules,
        spans=spans_of(facts.holdings, fence.events),
        samples=[row["record"] for row in rows if row["record"] and row["kind"] in _SAMPLES],
        strangers=[_stranger(row) for row in rows if row["record"] is None],
    )


def _stranger(row: Row) -> Stranger:
    detail = f"a text of {row['size']} bytes that is not a record"
    return Stranger("telemetry", row["partition"], row["offset"], detail)


def _window(telemetry: DataFrame, fence: Fence, facts: RunFacts) -> tuple[int, int] | None:
    """Return the time from a minute before the stream's start until a minute after the fence.

    Without a fence's instant the run lasts until its last telemetry, four days at most.
    """
    started_at, ended_at = fence.stream_started_at, fence.fenced_at
    if started_at is None or ended_at is None:
        began = F.min(F.when(F.col("kind") == "stream_started", F.col("at")))
        found = telemetry.agg(began.alias("began"), F.max("at").alias("ended")).first()
        bounds: Mapping[str, int | None] = {} if found is None else found.asDict()
        started_at = bounds.get("began") if started_at is None else started_at
        ended_at = bounds.get("ended") if ended_at is None else ended_at
    if started_at is None or ended_at is None:
        return None
    plan_ns = facts.plan.offset_ns or 0
    ended_at = min(max(ended_at, started_at + plan_ns), started_at + _LONGEST_RUN_NS)
    return started_at - _MARGIN_NS, ended_at + _MARGIN_NS
