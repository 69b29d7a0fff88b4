"""Checks record what speaks against a run and leave the judging to the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.run_folder_builder import quick_spike_run

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.measures import Measures
from lagbench_airflow.operators.verdict import (
    ReconcileCheckOperator,
    RunRebalancesCheckOperator,
    VerdictOperator,
)


@pytest.mark.parametrize(("lost", "reconciles"), [(0, True), (1, False)])
def test_the_verdict_reads_the_measured_run_and_its_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int, *, reconciles: bool
) -> None:
    """A claim that does not hold fails no task; verdict and check rest on one measures.json."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    folder: RunFolder = quick_spike_run().write(tmp_path)
    done = {}
    for kind in (RunRebalancesCheckOperator, ReconcileCheckOperator, VerdictOperator):
        if kind is ReconcileCheckOperator:
            measures = folder.read_json(folder.measures)
            measures["accounting"]["lost"] = lost
            folder.write_json(folder.measures, measures)
        name = kind.__name__
        task = kind(task_id=name, run_folder=str(folder.path), kafka_conn_id="none")
        done[name] = task.execute({})

    checks = folder.read_json("checks.json")
    assert checks["RunRebalancesCheckOperator"] == done["RunRebalancesCheckOperator"]
    assert checks["RunRebalancesCheckOperator"]["holds"] is True
    assert checks["ReconcileCheckOperator"]["holds"] is reconciles
    assert checks["ReconcileCheckOperator"]["against"] == ({"lost": lost} if lost else {})
    judged = done["VerdictOperator"]
    assert judged["checks"] == {name: found["holds"] for name, found in checks.items()}
    assert judged["status"] == ("pass" if reconciles else "fail")
    assert folder.read_model(folder.measures, Measures).accounting.lost == lost
