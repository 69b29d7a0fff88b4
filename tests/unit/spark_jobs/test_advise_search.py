"""The search on Spark: an executor finds what a process of the pool finds, bit by bit."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from advise_search import evaluated
from lagbench.catalog.catalog import checked_cell
from lagbench.core.advice.job import Job, Place, evaluate_job, new_job
from lagbench.core.simulation.simulated_world import SimulatedEnvironment
from lagbench.embedded import spark_search
from lagbench.embedded.spark_search import SparkSearch, master_of
from lagbench.errors import NotReady, WrongInput


def some_jobs(count: int) -> list[Job]:
    """Return jobs of one candidate, each with a draw of its own."""
    cell = checked_cell("hello")
    place = Place("hello", cell.scenario, SimulatedEnvironment(), code="1")
    manifest = cell.policy.manifest
    return [new_job("a", manifest, place, range(draw, draw + 1)) for draw in range(count)]


def on_an_executor(jobs: Sequence[Job]) -> pa.Table:
    """Return what an executor gives back for one batch of jobs."""
    rows = [(job.key, job.place.key, pickle.dumps(replace(job, place=None))) for job in jobs]
    names = ("key", "place", "job")
    columns: dict[str, Any] = dict(zip(names, zip(*rows, strict=True), strict=True))
    places: Any = SimpleNamespace(value={job.place.key: job.place for job in jobs})
    batch = pa.RecordBatch.from_pydict({name: list(column) for name, column in columns.items()})
    return pa.Table.from_batches(evaluated(places)(iter([batch])))


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many jobs each submission had; an executor in this process does them."""
    counts = list[int]()

    def spark_submit(
        arguments: Sequence[str], *, log_path: Path, environment: Mapping[str, str]
    ) -> tuple[int, str]:
        jobs = pickle.loads(Path(arguments[arguments.index("--jobs") + 1]).read_bytes())  # noqa: S301 - ours
        counts.append(len(jobs))
        pq.write_table(on_an_executor(jobs), log_path.with_name(f"part-{jobs[0].key}.parquet"))
        return len(counts) - 1, "out of memory"  # the second submission fails

    monkeypatch.setattr(spark_search, "spark_submit", spark_submit)
    return counts


def search_in(folder: Path, fewest: int) -> SparkSearch:
    """Return a search whose pool is this process."""
    return SparkSearch("local[2]", folder, lambda jobs: map(evaluate_job, jobs), print, fewest)


def test_spark_finds_the_same_bits_and_does_nothing_twice(
    submitted: list[int], tmp_path: Path
) -> None:
    """Outcomes are in the order of the jobs; only what is not kept yet goes to Spark."""
    jobs = some_jobs(4)
    expected = [evaluate_job(job) for job in jobs]

    assert list(search_in(tmp_path, 2)(jobs[:2])) == expected[:2]
    assert list(search_in(tmp_path, 2)(jobs[1::-1])) == expected[1::-1]
    assert list(map(str, search_in(tmp_path, 2)(jobs[:3]))) == list(map(str, expected[:3]))
    assert submitted == [2]  # one job alone is for the pool
    with pytest.raises(NotReady, match="out of memory"):
        list(search_in(tmp_path, 2)(jobs))
    assert list(search_in(tmp_path, 2)(jobs)) == expected  # what it had done was kept
    assert submitted == [2, 2]


def test_a_master_that_cannot_work_is_refused() -> None:
    """A driver in a pod could not give the outcomes back."""
    assert [master_of(on) for on in ("spark", "local[3]")] == ["local[*]", "local[3]"]
    for on in ("k8s://https://10.0.0.1:443", "yarn", "sparc"):
        with pytest.raises(WrongInput) as refused:
            master_of(on)
        assert (refused.value.field, refused.value.value) == ("--on", on)
