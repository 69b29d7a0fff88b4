"""The work of an experiment's Dag: record the order, keep each run, write the result."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.catalog.catalog_files import from_any_folder
from lagbench.catalog.experiments import check_experiment, load_experiment
from lagbench.core.compare.experiment import Experiment, PlannedRun, RunRecord
from lagbench.core.compare.experiment_page import shown_row
from lagbench.results.executions import (
    conclude,
    read_progress,
    record_run,
    start_execution,
    target_label,
)
from lagbench_airflow.hooks import target
from lagbench_airflow.params import CELL, EXPERIMENT
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
    confs = {
        run.key: conf_of(experiment, run) | {EXPERIMENT: name, CELL: run.cell}
        for run in read_progress(folder).schedule.runs
    }
    return {"folder": str(folder.path), "confs": confs}


def conf_of(experiment: Experiment, run: PlannedRun) -> dict[str, Any]:
    """Return the conf of scenario_run for a planned run."""
    conf: dict[str, Any] = {
        "scenario": from_any_folder(experiment.scenario),
        "overrides": run.overrides(experiment),
        "keep_bench": False,
    }
    policy = run.policy(experiment)
    return conf if policy is None else conf | {"policy": from_any_folder(policy)}


def keep_run(experiment_folder: str, key: str, dag_run: str) -> RunRecord:
    """Record the run of ``dag_run`` of scenario_run as the run ``key`` of the experiment."""
    folder, run = ExperimentFolder(Path(experiment_folder)), require_folder_of(dag_run)
    planned = next(run for run in read_progress(folder).schedule.runs if run.key == key)
    return record_run(folder, planned, run, now=time.time_ns())


def is_kept(experiment_folder: str, key: str) -> bool:
    """Return whether nothing more is to be measured for the run ``key``."""
    missing = read_progress(ExperimentFolder(Path(experiment_folder))).missing
    return key not in [run.key for run in missing]


def write_result(experiment_folder: str) -> dict[str, Any]:
    """Judge the experiment, write result.json and result.md, and return the differences."""
    folder = ExperimentFolder(Path(experiment_folder))
    result = conclude(folder)
    return {
        "result": str(folder.page),
        "has_gap": result.has_gap,
        "differences": [
            f"{comparison.second} minus {comparison.first}: {found.heading}: {found.text}"
            for comparison in result.comparisons
            for found in comparison.differences
            if found.verdict != "listed"
        ],
        "shown": [" ".join(shown_row(found)) for found in result.shown],
        "notes": list(result.notes),
    }
