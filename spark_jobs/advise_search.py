"""Simulate the jobs of a search for an advice (submit with spark-submit).

Executors need no disk of the driver's: jobs go to them as rows, and outcomes come back. The driver
keeps each part of them as a Parquet file, so that a search that was stopped begins behind the last.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import Broadcast
from pyspark.sql import SparkSession

from lagbench.core.advice.job import Job, Place, evaluate_job
from lagbench_spark.session import open_session

_BATCH_JOBS = 100
"""Of one Arrow batch to Python; a job takes some hundredths of a second."""
_PART_JOBS_PER_CORE = 500
"""A search that is stopped loses at most this much; the cores wait for the last job as seldom."""
_TASKS_PER_CORE = 5
"""Some jobs take longer than others."""
_JOBS = "key string, place string, job binary"
_OUTCOMES = "key string, rows string"


def main(argv: Sequence[str]) -> None:
    """Write a Parquet file for each part of the jobs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=Path, required=True, help="pickle of a list of Job")
    parser.add_argument("--outcomes", type=Path, required=True, help="folder of Parquet files")
    options = parser.parse_args(argv)
    jobs: list[Job] = pickle.loads(options.jobs.read_bytes())  # noqa: S301 - of the same user
    session = open_session("lagbench advise")
    try:
        search(session, jobs, options.outcomes)
    finally:
        session.stop()


def search(session: SparkSession, jobs: Sequence[Job], outcomes: Path) -> None:
    """Simulate the jobs and write their outcomes into the folder, part by part."""
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", _BATCH_JOBS)
    context = session.sparkContext
    places = context.broadcast({job.place.key: job.place for job in jobs})
    step = _PART_JOBS_PER_CORE * context.defaultParallelism
    for first in range(0, len(jobs), step):
        part = jobs[first : first + step]
        rows = [(job.key, job.place.key, pickle.dumps(replace(job, place=None))) for job in part]
        found = (
            session.createDataFrame(rows, _JOBS)
            .repartition(min(len(part), _TASKS_PER_CORE * context.defaultParallelism))
            .mapInArrow(evaluated(places), _OUTCOMES)
            .toArrow()
        )
        _write(found, outcomes / f"part-{part[0].key}.parquet")


def evaluated(
    places: Broadcast[dict[str, Place]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what an executor does with batches of jobs."""

    def evaluate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found: dict[str, list[Any]] = {"key": [], "rows": []}
            for row in batch.to_pylist():
                job = pickle.loads(row["job"])  # noqa: S301 - from the driver
                outcome = evaluate_job(replace(job, place=places.value[row["place"]]))
                found["key"].append(outcome.key)
                found["rows"].append(json.dumps(outcome.rows))  # text keeps each bit and type
            yield pa.RecordBatch.from_pydict(found)

    return evaluate


def _write(found: pa.Table, path: Path) -> None:
    """Write a part as a whole or not at all."""
    hidden = path.with_name(f".{path.name}")
    pq.write_table(found, hidden)
    hidden.replace(path)


if __name__ == "__main__":
    main(sys.argv[1:])
