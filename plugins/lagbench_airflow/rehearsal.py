"""The regression gate of the standing rehearsal."""

from __future__ import annotations

from typing import Any

from lagbench.errors import NotReady
from lagbench.results.compare import compare_runs, last_passing_run
from lagbench_airflow.run_lookup import folder_of_dag_run


def compare_with_last_pass(dag_run: str) -> dict[str, Any]:
    """Compare the run that ``dag_run`` of scenario_run made with the last one that passed.

    :raises NotReady: the run folder is not on this machine.
    """
    folder = folder_of_dag_run(dag_run)
    if folder is None:
        raise NotReady(
            f"no run folder names the Dag run {dag_run}: it ended before plan_cell, or ran on "
            "another machine"
        )
    reference = last_passing_run(folder)
    if reference is None:
        return {
            "status": "first",
            "run_id": folder.run_id,
            "reference": None,
            "reasons": ["no earlier run of this scenario and policy passed"],
        }
    comparison = compare_runs(folder, reference)
    return {
        "status": comparison.status,
        "run_id": comparison.run_id,
        "reference": comparison.reference_run_id,
        "reasons": list(comparison.reasons),
    }
