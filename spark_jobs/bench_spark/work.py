"""The ledger of a run with the summaries that accounting and timeline both need."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from bench_spark import schemas
from bench_spark.run_folder import RunFolder
from bench_spark.transforms.repeats import overlaps, repeats
from bench_spark.transforms.work_runs import work_runs


@dataclass(frozen=True, slots=True)
class Work:
    """Rows of ``schemas.PROCESSED``, their runs, and what repeats; None: nothing repeats."""

    processed: DataFrame
    runs: DataFrame
    repeats: DataFrame | None


def read_work(folder: RunFolder) -> Work:
    """Return the run's work; the summaries are kept in cache."""
    processed = folder.read_table("processed", schemas.PROCESSED)
    # Every later look at the runs is by partition: shuffled once, for all of them.
    files = int(str(folder.session.conf.get("spark.sql.shuffle.partitions")))
    runs = work_runs(processed).repartition(files, "partition").persist()
    shared = overlaps(runs)
    if shared.isEmpty():
        return Work(processed, runs, None)
    return Work(processed, runs, repeats(processed, shared).persist())
