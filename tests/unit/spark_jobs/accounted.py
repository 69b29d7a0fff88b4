"""The accounting of a run that stands in tables here, without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tests.unit.spark_jobs.synthetic_run import SyntheticRun, events_of, processed_of

from lagbench.core.ownership.run_facts import facts_of
from lagbench.core.telemetry.records import encode_record
from lagbench.core.telemetry.records_of_programs import StreamStarted
from lagbench_spark.accounting import account
from lagbench_spark.landing import Judge, Run, Stranger, window_of
from lagbench_spark.run_folder import Fence


@dataclass
class WrittenFolder:
    """Has the landed tables, and takes those that the accounting writes."""

    path: Path
    events: pa.Table
    processed: pa.Table
    tables: dict[str, pa.Table] = field(default_factory=dict)

    def write_rows(self, name: str, schema: pa.Schema, rows: pa.Table) -> None:
        """Write a table."""
        self.tables[name] = rows.select(schema.names).cast(schema)
        folder = self.path / "tables" / name
        folder.mkdir(parents=True)
        pq.write_table(self.tables[name], folder / "part-0.parquet")

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Do nothing: the accounting returns it, too."""


@dataclass
class Judged:
    """Rows as Spark returns them."""

    rows: pa.Table

    def collect(self) -> list[dict[str, Any]]:
        """Return the rows."""
        found: list[dict[str, Any]] = self.rows.to_pylist()
        return found

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        """Return the rows."""
        return self.rows


class TableRun(Run):
    """A run whose events and processings are tables here."""

    def by_partition(self, judge: Judge, columns: str) -> Any:
        """Judge each partition here."""
        known = pa.array([*self.fence.events], pa.int32())
        batches = []
        for partition in (*self.fence.events, None):
            parts = []
            folder: Any = self.folder
            for table in (folder.events, folder.processed):
                if partition is None:
                    chosen = pc.invert(pc.is_in(table["partition"], known))
                else:
                    chosen = pc.equal(table["partition"], partition)
                parts.append(table.filter(chosen))
            batches.append(judge(partition, *parts))
        return Judged(pa.Table.from_batches(batches))

    def idle(self) -> dict[str, list[int]]:
        """No pod was killed while it reported that it had nothing to do."""
        return {}


def accounted(
    run: SyntheticRun,
    path: Path,
    ends: dict[int, int] | None = None,
    *,
    events: pa.Table | None = None,
    processed: pa.Table | None = None,
    samples: tuple[str, ...] = (),
    strangers: tuple[Stranger, ...] = (),
    level: str | None = None,
) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Return accounting.json of a run and its tables, which are below ``path``, too.

    :param ends: the fence of the log; by default its end.
    :param level: of a consumer that is not lagbench's.
    """
    fence = Fence(ends or run.end_offsets(), {}, {}, run.committed, None, accounting=level)
    texts = [encode_record(record).decode() for record in run.telemetry]
    facts = facts_of(texts, fidelity=run.fidelity, are_silent=level is not None)
    started = next((r for r in run.telemetry if isinstance(r, StreamStarted)), None)
    ended_at = max((record.at for record in run.telemetry), default=None)
    window = window_of(started and started.at, ended_at, facts.plan.offset_ns or 0)
    done = processed_of(run) if processed is None else processed
    logged = events_of(run) if events is None else events
    folder: Any = WrittenFolder(path, logged, done)
    started_at = started and started.stream_started_at
    content = account(TableRun(folder, fence, facts, started_at, window, samples, strangers))
    return content, folder.tables
