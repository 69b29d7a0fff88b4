"""The pages of many runs, of the runs that are kept in docs/findings, for a browser."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from fastapi import FastAPI
from tests.integration.report.served_live_page import served_bench

from lagbench.adapters.runs.experiment_folder import EXPERIMENTS_FOLDER, ExperimentFolder
from lagbench.adapters.runs.run_folder import RUNS_DIR_VARIABLE
from lagbench.project import PROJECT_ROOT
from lagbench.results.history import rebuild_history

FINDINGS = PROJECT_ROOT / "docs" / "findings"
LOADED = "document.readyState === 'complete'"


@contextmanager
def served_kept_runs(experiments: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Serve the pages of the kept runs of experiments; yield their address and the runs folder."""
    from lagbench_airflow.pages.bench_views import bench_app  # after Airflow's home is set

    with tempfile.TemporaryDirectory() as name, patch.dict(os.environ, {RUNS_DIR_VARIABLE: name}):
        root = Path(name)
        for experiment in experiments:
            kept = ExperimentFolder(FINDINGS / experiment)
            for run in kept.runs():
                run.unpack(root)
            shutil.copytree(kept.path, root / EXPERIMENTS_FOLDER / experiment / "kept")
        rebuild_history(root)
        with served_bench(FastAPI(), bench_app(is_open=True)) as bench:
            yield bench, root
