"""The time of the pages that read the whole history, with a thousand runs in the runs folder."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from starlette.testclient import TestClient

from lagbench.results.history import rebuild_history
from tests.benchmarks.figures import Figure, at_most
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.fakes.compared_runs import write_run

RUNS, MOST_SECONDS, REQUESTS = 1000, 1.0, 5
PAGES = ("/runs", "/runs?q=run-77&sort=-drain_seconds", "/history", "/dag/daily_spike_rehearsal")


def measure(scale: float) -> Iterator[Figure]:
    """Yield the median time of each page, in this process, without a network."""
    count = max(2, round(RUNS * scale))
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, LAGBENCH_RUNS_DIR=folder):
        for number in range(count):
            run = write_run(Path(folder), f"run-{number}", seed=number % 50, created_at=number + 1)
            run.write_text(run.report, "")
        rebuild_history(Path(folder))
        yield from _times(count)


def _times(count: int) -> Iterator[Figure]:
    from lagbench_airflow.pages import bench_views

    client = TestClient(bench_views.bench_app(is_open=True), follow_redirects=False)
    with patch.object(bench_views, "started_by", lambda _: {}):  # one query, by an index
        for page in PAGES:
            seconds = []
            for _ in range(REQUESTS + 1):  # the first one compiles the template
                began_at = time.perf_counter()
                assert client.get(page).status_code < 400
                seconds.append(time.perf_counter() - began_at)
            median = sorted(seconds[1:])[REQUESTS // 2]
            yield Figure(f"{page}, {count:,} runs", median, "s", at_most(MOST_SECONDS))
