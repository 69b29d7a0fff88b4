"""The regression gate of the standing rehearsal."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lagbench.adapters.runs.run_folder import RunFolder, RunSummary, list_runs, runs_root
from lagbench.core.cluster.lease import longest_run_seconds
from lagbench.errors import LagbenchError
from lagbench.report.page import write_report
from lagbench.results.compared_runs import pinned_baselines
from lagbench.results.gate import judge_night, references
from lagbench.results.read_run import read_scenario
from lagbench_airflow.params import MORE_CELLS, refuse, refuse_unknown, rehearsal_params
from lagbench_airflow.run_lookup import require_folder_of

MOST_CELLS = 20


def cells_of_night(params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the conf of ``scenario_run`` for each cell of a night, in their order.

    :raises WrongInput: a line is not a cell, or the night has it already.
    """
    refuse_unknown(params, rehearsal_params())
    cells = [(str(params["scenario"]), str(params.get("policy") or ""))]
    for line in str(params.get(MORE_CELLS) or "").splitlines():
        words = line.split()
        cell = (words[0], "".join(words[1:])) if words else None
        if len(words) > 2 or cell in cells or len(cells) == MOST_CELLS:
            allowed = f"SCENARIO or SCENARIO POLICY, each once, {MOST_CELLS} cells at most"
            refuse(MORE_CELLS, line, allowed)
        cells += [] if cell is None else [cell]
    given = {name: params.get(name) for name in ("seed", "overrides")}
    shared = {name: value for name, value in given.items() if value not in (None, "")}
    return [
        {"scenario": scenario, "policy": policy, **shared, "keep_bench": False, "ask": False}
        for scenario, policy in cells
    ]


def compare_with_last_pass(dag_run: str) -> dict[str, Any]:
    """Compare the run of ``dag_run`` of scenario_run with its baseline and the last night.

    Write comparison.json, and the report with it.
    """
    folder = require_folder_of(dag_run)
    record = judge_night(folder, now=time.time_ns())
    write_report(folder)
    return {
        "status": record.status,
        "run_id": record.run_id,
        "baseline": None if record.baseline is None else record.baseline.reference_run_id,
        "last_night": None if record.last_night is None else record.last_night.reference_run_id,
        "reasons": list(record.reasons),
        "notes": list(record.notes),
    }


SECOND_NS = 1_000_000_000

DAY_NS = 86_400 * SECOND_NS


def tidy_run_folders(
    *, keep_days: int, including_failed: bool, root: Path | None = None, now: int | None = None
) -> list[str]:
    """Delete runs older than ``keep_days`` days and return their ids.

    Kept: every run whose verdict is not pass (unless ``including_failed``), the baseline of
    each cell and its newest rehearsal that was no regression (the next one is compared with both),
    a run that may still be in progress, and any folder without a date in its manifest, because
    it may not be ours.
    """
    root = root or runs_root()
    now = time.time_ns() if now is None else now
    oldest = now - keep_days * DAY_NS
    runs = list_runs(root)
    wanted_by_gate = {*references(root).values()}
    wanted_by_gate |= {baseline.run_id for baseline in pinned_baselines(root).values()}
    deleted = []
    for run in runs:
        if run.created_at is None or run.created_at >= oldest:
            continue
        is_wanted = run.verdict != "pass" and not including_failed
        is_kept = is_wanted or run.run_id in wanted_by_gate
        if not is_kept and not _may_be_in_progress(root, run, now):
            shutil.rmtree(root / run.run_id)
            deleted.append(run.run_id)
    return deleted


def _may_be_in_progress(root: Path, run: RunSummary, now: int) -> bool:
    """Return whether a run can still write to its folder: no report, and not past the limit.

    The limit is the longest duration of its scenario, or a day if that cannot be read.
    """
    folder = RunFolder(root / run.run_id)
    if run.created_at is None or (run.verdict is not None and folder.report.exists()):
        return False
    longest_ns = DAY_NS
    with suppress(LagbenchError):
        longest_ns = longest_run_seconds(read_scenario(folder)) * SECOND_NS
    return now < run.created_at + longest_ns
