"""A whole search on Spark, on this machine and on a cluster: the advice of the pool, bit by bit."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.integration.spark_standalone import standalone_cluster, strange_python

from lagbench.catalog.catalog import checked_cell
from lagbench.core.advice.job import Job, Outcome, evaluate_job
from lagbench.core.advice.model import AskedSlo
from lagbench.core.advice.question import Question
from lagbench.core.advice.search import search
from lagbench.embedded.spark_search import SparkSearch
from lagbench.shared_with_spark.spark_job import SECRET_VARIABLE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

_DEFAULTS = """\
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.executor.memory 500m
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1
"""


def here(jobs: Sequence[Job]) -> Iterator[Outcome]:
    """Evaluate as a process of the pool does."""
    return map(evaluate_job, jobs)


def question() -> Question:
    """Return a small question."""
    cell = checked_cell("hello")
    slo = AskedSlo(name="time_lag_p99_seconds", limit=30.0)
    return Question([cell.scenario], [slo], cell.policy, budget=24, draws=(1, 2, 2, 3))


@pytest.fixture(params=["local[2]", "spark://"])
def master(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Return a master; the workers of a cluster do not have this project."""
    if request.param != "spark://":
        yield request.param
        return
    (tmp_path / "spark-defaults.conf").write_text(_DEFAULTS)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", str(strange_python(tmp_path)))
    monkeypatch.setenv(SECRET_VARIABLE, "of-this-cluster")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    with standalone_cluster(tmp_path) as cluster:
        yield cluster.master


def test_spark_gives_the_advice_of_the_pool(master: str, tmp_path: Path) -> None:
    """The same text; a second search finds all that the first has kept, and starts no Spark."""
    expected = search(question(), here).model_dump_json()
    said: list[str] = []
    on_spark = SparkSearch(master, tmp_path / "outcomes", here, said.append, fewest_jobs=10)

    assert search(question(), on_spark).model_dump_json() == expected
    assert said
    said.clear()
    assert search(question(), on_spark).model_dump_json() == expected
    assert said == []
