"""The ledger of a run with the summaries that accounting and timeline both need."""

from __future__ import annotations

from dataclasses import dataclass

from bench_spark import schemas
from bench_spark.run_folder import RunFolder
from bench_spark.transforms.repeats import repeats, shared_blocks
from bench_spark.transforms.work_runs import work_runs
from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Work:
    """Rows of ``schemas.PROCESSED``, their runs, and what of them is repeated; kept in cache."""

    processed: DataFrame
    runs: DataFrame
    shared_blocks: DataFrame
    repeats: DataFrame


def read_work(folder: RunFolder) -> Work:
    """Return the run's work; the summaries are computed when they are first used."""
    processed = folder.read_table("processed", schemas.PROCESSED)
    runs = work_runs(processed).persist()
    shared = shared_blocks(runs).persist()
    return Work(processed, runs, shared, repeats(processed, shared).persist())
