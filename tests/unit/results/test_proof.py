"""The proof of an advice: which policies are rehearsed, and what their runs showed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fakes.advices import advice, candidate, measure

from lagbench.core.advice.proof import held_by
from lagbench.core.policy.stream_windows import WINDOWS_ANNOTATION
from lagbench.core.simulation.prediction import PREDICTED, Residual, predict
from lagbench.core.simulation.simulation_measures import Spread
from lagbench.results.advice_files import proof_rows
from lagbench.results.executions import read_progress, start_execution
from lagbench.results.proof import Proof


@pytest.fixture
def proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proof:
    """Return a proof of two pairs whose execution has started."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    made = proof_of()
    start_execution(made.experiment, target="embedded", started_by="dag", now=1, at=made.folder)
    return made


def proof_of(**changed: Any) -> Proof:
    """Return a proof of an advice."""
    told, seed = advice(**changed), {"seed": "3"}
    return Proof.of(told, "quick_spike", "quick_spike", overrides=seed, pairs=2, seconds=60)


def test_each_policy_has_its_runs_beside_what_was_predicted(proof: Proof) -> None:
    """The runner-up is the present policy and is not rehearsed twice; a missing run stays so."""
    planned = read_progress(proof.folder).schedule.runs
    assert [cell.name for cell in proof.experiment.cells] == ["present", "pick"]
    assert len(planned) == 4
    assert {run.seed for run in planned} == {3}  # that of the question: it places the hot keys
    for run in planned:
        if (run.cell, run.pair) != ("pick", 2):
            reaction, status = (25.0, "fail") if run.cell == "present" else (16.5, "pass")
            measure(proof.folder, run, reaction, status)

    present, pick = proof.read()

    assert (present.verdict, len(present.runs), present.planned) == ("fail", 2, 2)
    assert (pick.verdict, len(pick.runs), pick.candidate) == ("undetermined", 1, "lag 12")
    residuals = {row.name: row for row in pick.runs[0].measures}
    assert residuals["pod_minutes"].measured is not None
    assert residuals["reaction_seconds"].measured == 16.5
    [run] = (one for one in planned if (one.cell, one.pair) == ("pick", 1))
    cell = proof.cells["pick"]
    own = predict(
        cell.scenario.model_copy(update={"seed": 3}),
        cell.policy,
        hpa_sync_at_seconds=run.hpa_sync_at_seconds,
    )
    for name in PREDICTED:  # at that phase, not over all as in the advice
        assert residuals[name].predicted == own.measures[name]
    assert pick.runs[0].verdict == "pass"  # whatever else the run was judged by
    shown = list(proof_rows(proof.advice.model_copy(update={"proof": (present, pick)})))
    assert [row[1] for row in shown if row[1]] == ["fail", "undetermined"]
    assert [row[-1] for row in shown if row[2].startswith("Scale-out")] == ["0 of 2", "0 of 1"]


def test_the_same_advice_goes_on_in_its_folder_and_another_has_its_own(proof: Proof) -> None:
    """A search that finds the same policies again does not rehearse them again."""
    assert proof_of().folder == proof.folder
    cron = candidate("cron", "cron-prewarm-plus-lag")
    cron.manifest["metadata"]["annotations"] = {WINDOWS_ANNOTATION: "60-180"}
    other = proof_of(pick=cron)
    assert other.folder != proof.folder
    assert (proof.experiment.phase, other.experiment.phase) == ("fixed", "free")  # of cron windows
    assert proof.cells["pick"].scenario.slos.reaction_seconds == 20.0
    alone = proof_of(present=None, runner_up=None)
    assert alone.experiment.kind == "identity"


@pytest.mark.parametrize(
    ("statuses", "planned", "held"),
    [
        (["pass", "pass"], 2, "pass"),
        (["pass"], 2, "undetermined"),
        ([], 0, "undetermined"),
        (["pass", "undetermined"], 2, "undetermined"),
        (["undetermined", "fail"], 2, "fail"),
        (["warn", "pass"], 2, "fail"),  # the scenario's own limit may only warn
    ],
)
def test_one_that_failed_decides(statuses: list[str], planned: int, held: str) -> None:
    """A missing run is never a pass."""
    assert held_by(statuses, planned=planned) == held


@pytest.mark.parametrize(
    ("measured", "is_inside"), [(10.0, True), (12.0, True), (12.1, False), (None, False)]
)
def test_a_run_is_in_the_range_or_not(measured: float | None, is_inside: bool) -> None:
    """One that was not measured is not."""
    spread = Spread(11.0, 10.0, 12.0)
    found = Residual(
        name="drain_seconds",
        title="Lag drain",
        unit="s",
        predicted=spread,
        measured=measured,
        residual=None,
    )

    assert found.is_in_range is is_inside
