"""Run the jobs of a search for an advice on Spark; what is done is kept, and not done again."""

from __future__ import annotations

import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from lagbench.core.advice.job import Job, Outcome
from lagbench.core.cluster.spark_connection import SparkPlace, place_of
from lagbench.embedded.java import driver_options, find_java
from lagbench.embedded.spark_packages import (
    SPARK_JOBS,
    spark_environment,
    submit_environment,
    write_code_zip,
)
from lagbench.embedded.spark_submit import spark_submit
from lagbench.errors import NotReady, WrongInput
from lagbench.shared_with_spark.spark_job import each_second

FEWEST_JOBS = 500
"""Of fewer, Spark's start takes longer than the work: the pool does them."""
_KEPT_SECONDS = 7 * 86_400
"""A search that was interrupted continues, and one with another SLO finds what both need."""
_HERE = "local[*]"
_DRIVER_MEMORY = "1g"


def master_of(on: str) -> str:
    """Return the master that ``--on`` names.

    :raises WrongInput: it is none, or one whose driver would not run here.
    """
    master = _HERE if on == "spark" else on
    try:
        is_fit = place_of("advise", master) is not SparkPlace.KUBERNETES
    except WrongInput:
        is_fit = False
    if not is_fit:
        allowed = "pool, spark (local[*]), local[N] or spark://HOST:PORT"
        raise WrongInput(where="advise", field="--on", value=on, allowed=allowed)
    return master


@dataclass(frozen=True, slots=True)
class SparkSearch:
    """Evaluates jobs as the pool does, with the same bits.

    :param master: of ``master_of``; ``PYSPARK_PYTHON`` is the Python of its
        workers, with numpy, pandas, pyarrow, pydantic and msgspec.
    :param folder: keeps the outcomes by the keys of their jobs, for a week.
    :param pool: does what is too little for Spark.
    """

    master: str
    folder: Path
    pool: Callable[[Sequence[Job]], Iterable[Outcome]]
    say: Callable[[str], object]
    fewest_jobs: int = FEWEST_JOBS

    def __call__(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Yield the outcome of each job, in the order of the jobs.

        :raises NotReady: Spark failed; what it had done is kept.
        """
        for path in self.folder.glob("part-*.parquet"):
            if path.stat().st_mtime < time.time() - _KEPT_SECONDS:
                path.unlink()
        known = self._known()
        missing = [job for job in jobs if job.key not in known]
        if len(missing) >= max(self.fewest_jobs, 1):
            self._submit(missing)
            known = self._known()
        elif missing:
            known |= {found.key: found for found in self.pool(missing)}
        for job in jobs:
            yield known[job.key]

    def _known(self) -> dict[str, Outcome]:
        known = {}
        for path in sorted(self.folder.glob("part-*.parquet")):
            for row in pq.read_table(path).to_pylist():
                rows = tuple(tuple(values) for values in json.loads(row["rows"]))
                known[row["key"]] = Outcome(row["key"], rows)
        return known

    def _count(self) -> int:
        paths = self.folder.glob("part-*.parquet")
        return sum(pq.read_metadata(path).num_rows for path in paths)

    def _submit(self, jobs: Sequence[Job]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        is_here = place_of("advise", self.master) is SparkPlace.LOCAL
        before, said, log_path = self._count(), [""], self.folder / "spark.log"

        def show() -> None:
            now = f"{self._count() - before:,} of {len(jobs):,} jobs are done on {self.master}"
            if now != said[-1]:
                said.append(now)
                self.say(now)

        show()
        with (
            tempfile.TemporaryDirectory(prefix="lagbench-advise-") as scratch,
            driver_options(find_java(), messages=0) as options,
            each_second(show),
        ):
            file = Path(scratch) / "jobs.pickle"
            file.write_bytes(pickle.dumps(list(jobs)))
            command = ["--master", self.master, "--driver-memory", _DRIVER_MEMORY]
            command += ["--driver-java-options", options]
            if not is_here:
                python = os.environ.get("PYSPARK_PYTHON", "python3")
                command += ["--py-files", str(write_code_zip(Path(scratch)))]
                command += ["--conf", f"spark.pyspark.python={python}"]
                command += ["--conf", f"spark.pyspark.driver.python={sys.executable}"]
            command += [str(SPARK_JOBS / "advise_search.py"), "--jobs", str(file)]
            command += ["--outcomes", str(self.folder.absolute())]
            variables = spark_environment() if is_here else submit_environment()
            code, tail = spark_submit(command, log_path=log_path, environment=variables)
        show()
        if code != 0:
            raise NotReady(
                f"Spark ended with code {code}; what was done is kept: the same command continues. "
                f"Whole log: {log_path}\n{tail}"
            )
