"""The regression gate of the standing rehearsal."""

from __future__ import annotations

import time
from typing import Any

from lagbench.errors import NotReady
from lagbench.report.page import write_report
from lagbench.results.gate import judge_night
from lagbench_airflow.run_lookup import folder_of_dag_run


def compare_with_last_pass(dag_run: str) -> dict[str, Any]:
    """Compare the run of ``dag_run`` of scenario_run with its baseline and the last night.

    Write comparison.json, and the report with it.
    """
    folder = folder_of_dag_run(dag_run)
    if folder is None:
        raise NotReady(
            f"no run folder names the Dag run {dag_run}: it ended before plan_cell, or ran on "
            "another machine"
        )
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
