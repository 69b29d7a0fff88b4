"""The work of an experiment's Dag: record the order, keep each run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.catalog.experiments import check_experiment, load_experiment
from lagbench.core.compare.experiment import RunRecord
from lagbench.results.executions import (
    confs_of,
    read_progress,
    record_run,
    start_execution,
    target_label,
)
from lagbench_airflow.hooks import target
from lagbench_airflow.run_lookup import require_folder_of


def record_order(name: str) -> dict[str, Any]:
    """Check the cells of an experiment, start an execution, and return its folder and confs.

    The confs are those of scenario_run, by the keys of the runs.
    """
    experiment = load_experiment(name)
    check_experiment(experiment)
    folder = start_execution(
        experiment,
        target=target_label(target.target_name()),
        started_by="dag",
        now=time.time_ns(),
    )
    return {"folder": str(folder.path), "confs": confs_of(folder)}


def keep_run(experiment_folder: str, key: str, dag_run: str) -> RunRecord:
    """Record the run of ``dag_run`` of scenario_run as the run ``key`` of the experiment."""
    folder, run = ExperimentFolder(Path(experiment_folder)), require_folder_of(dag_run)
    planned = next(run for run in read_progress(folder).schedule.runs if run.key == key)
    return record_run(folder, planned, run, now=time.time_ns())
